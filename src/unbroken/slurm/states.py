"""Slurm's job states: their short codes and what each means for a run. An unknown state is never a success."""

from enum import Enum
from typing import Final


class StateClass(Enum):
    """What a state means for whoever waits for the job."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    """Processes may still live: they are saving, or being killed."""
    OK = "final-ok"
    FAILED = "final-failed"
    REQUEUED = "requeued"
    """It comes back under the same id."""
    UNKNOWN = "unknown"
    """Not a state of the versions known here. Neither success nor failure: ask again, then ask a person."""


_C = StateClass
_STATES: Final[dict[str, tuple[str, StateClass, str]]] = {
    "BOOT_FAIL": ("BF", _C.FAILED, "its node could not be booted"),
    "CANCELLED": ("CA", _C.FAILED, "it was cancelled"),
    "COMPLETED": ("CD", _C.OK, "it ended with exit code 0"),
    "CONFIGURING": ("CF", _C.RUNNING, "it has its nodes and waits for them to be ready"),
    "COMPLETING": ("CG", _C.ENDING, "it is ending, some of its processes may still live"),
    "DEADLINE": ("DL", _C.FAILED, "its deadline came before its end"),
    "EXPEDITING": ("EX", _C.PENDING, "it waits and goes before others"),
    "FAILED": ("F", _C.FAILED, "it ended with an exit code other than 0"),
    "LAUNCH_FAILED": ("LF", _C.FAILED, "its first process could not be started"),
    "NODE_FAIL": ("NF", _C.FAILED, "its node failed"),
    "OUT_OF_MEMORY": ("OOM", _C.FAILED, "it needed more memory than it had asked for"),
    "PENDING": ("PD", _C.PENDING, "it waits in the queue"),
    "POWER_UP_NODE": ("PU", _C.PENDING, "its nodes are being powered up"),
    "PREEMPTED": ("PR", _C.FAILED, "a job with precedence took its place"),
    "RECONFIG_FAIL": ("RC", _C.FAILED, "its node could not be reconfigured"),
    "REQUEUED": ("RQ", _C.REQUEUED, "it ends now and then waits in the queue again"),
    "REQUEUE_FED": ("RF", _C.REQUEUED, "another cluster of the federation takes it"),
    "REQUEUE_HOLD": ("RH", _C.REQUEUED, "it is back in the queue and held"),
    "RESIZING": ("RS", _C.RUNNING, "it changes its size"),
    "RESV_DEL_HOLD": ("RD", _C.PENDING, "it is held because its reservation was deleted"),
    "REVOKED": ("RV", _C.FAILED, "another cluster of the federation runs it"),
    "RUNNING": ("R", _C.RUNNING, "it runs"),
    "SIGNALING": ("SI", _C.RUNNING, "it is being signalled"),
    "SPECIAL_EXIT": ("SE", _C.REQUEUED, "it is back in the queue, held, marked as special"),
    "STAGE_OUT": ("SO", _C.ENDING, "it copies its files out"),
    "STOPPED": ("ST", _C.RUNNING, "it is stopped and keeps its CPUs"),
    "SUSPENDED": ("S", _C.RUNNING, "it is suspended, its CPUs are lent to others"),
    "TIMEOUT": ("TO", _C.FAILED, "it reached its time limit"),
    "UPDATE_DB": ("UD", _C.ENDING, "its record is being written"),
}
_NAMES: Final = {code: name for name, (code, _, _) in _STATES.items()}


def full_name(state: str) -> str:
    """``CA``, ``CANCELLED by 0``, ``cancelled+`` -> ``CANCELLED``; what is unknown comes back in capitals."""
    words = state.split()
    word = words[0].rstrip("+").upper() if words else "UNKNOWN"
    return _NAMES.get(word, word)


def classify(state: str) -> StateClass:
    """The class of a state in any spelling, from squeue, sacct or scontrol."""
    known = _STATES.get(full_name(state))
    return known[1] if known else StateClass.UNKNOWN


def is_final(state: str) -> bool:
    """Whether the job neither runs nor comes back. UNKNOWN is not final."""
    return classify(state) in {StateClass.OK, StateClass.FAILED}


def is_success(state: str) -> bool:
    """True for COMPLETED alone."""
    return classify(state) is StateClass.OK


def in_words(state: str) -> str:
    """What the state means, to follow after "the job": ``it waits in the queue``."""
    known = _STATES.get(full_name(state))
    return known[2] if known else f"it is in the state {state!r}, which this version of unbroken does not know"

"""From what Slurm and the run directory say about one job to what the executor does: a pure function.

The stock plugin takes UNKNOWN for success, waits for ever for PREEMPTED and for "CANCELLED by 0", and resubmits
crashes; this table is why we do not use its polling (docs/decisions/0002-own-polling.md).
"""

from dataclasses import dataclass
from enum import Enum

from unbroken.run.status import RunStatus
from unbroken.slurm.states import FINAL_STATES, base_state


class Action(Enum):
    """What becomes of a submitted job."""

    WAIT = "wait"
    SUCCESS = "success"
    RESUBMIT = "resubmit"
    """Start it again without spending one of Snakemake's retries: nothing failed."""
    RETRY = "retry"
    """A failure that another attempt may cure: Snakemake's retries count it."""
    FAIL = "fail"
    """Another attempt would end the same way, or a person does not want it."""


@dataclass(frozen=True)
class Evidence:
    """All that is known about a job at one poll."""

    state: str | None
    """Slurm's state in full, or None when neither the queue nor accounting knows the job."""
    run: RunStatus
    """What the run directory says now."""
    has_result: bool
    missed_polls: int = 0
    """Polls in a row at which Slurm answered and did not know the job."""
    stalled_resubmissions: int = 0
    """Resubmissions in a row that did not advance the run."""
    pending_reason: str = ""


@dataclass(frozen=True)
class Judgement:
    """What to do, and the sentence for the person at the terminal."""

    action: Action
    message: str = ""


MISSED_POLLS_LIMIT = 3
STALLED_LIMIT = 3
HOPELESS_REASONS = frozenset({"BadConstraints", "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS"})
"""Pending reasons that no waiting cures."""


def judge(evidence: Evidence) -> Judgement:
    """Decide what becomes of a job."""
    state = base_state(evidence.state) if evidence.state else None
    if state is None:
        return _unknown_to_slurm(evidence)
    if state not in FINAL_STATES:
        return _in_the_queue(state, evidence)
    if evidence.has_result and evidence.run.status == "completed":
        return Judgement(Action.SUCCESS)
    if state == "COMPLETED":
        return Judgement(Action.SUCCESS) if evidence.has_result else _no_result()
    if state == "CANCELLED":
        return Judgement(Action.FAIL, f"cancelled ({evidence.state}): left as it is, a new snakemake call goes on with it")
    if state == "DEADLINE":
        return Judgement(Action.FAIL, "Slurm ended it because its deadline has passed")
    if state in ("PREEMPTED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "REVOKED"):
        return _resubmit(evidence, f"Slurm says {state} and queues it no more")
    if state == "OUT_OF_MEMORY" or evidence.run.reason == "out of memory":
        return Judgement(Action.RETRY, "out of memory: the next attempt asks for more")
    return _failed(evidence)


def _in_the_queue(state: str, evidence: Evidence) -> Judgement:
    if state == "PENDING" and evidence.pending_reason in HOPELESS_REASONS:
        return Judgement(Action.FAIL, f"it can never start: {evidence.pending_reason}")
    return Judgement(Action.WAIT)


def _unknown_to_slurm(evidence: Evidence) -> Judgement:
    if evidence.has_result and evidence.run.status == "completed":
        return Judgement(Action.SUCCESS)
    if evidence.missed_polls < MISSED_POLLS_LIMIT:
        return Judgement(Action.WAIT)
    if evidence.run.status in ("failed", "preempted"):
        return _failed(evidence)
    return _resubmit(evidence, "Slurm does not know the job any more and the run has no result")


def _no_result() -> Judgement:
    return Judgement(Action.RETRY, "Slurm says COMPLETED, but the run has no result.json")


def _resubmit(evidence: Evidence, why: str) -> Judgement:
    if evidence.stalled_resubmissions >= STALLED_LIMIT:
        return Judgement(Action.FAIL, f"{why}; resubmitted {STALLED_LIMIT} times without any progress")
    return Judgement(Action.RESUBMIT, f"{why}: submitted again, it goes on from its last checkpoint")


def _failed(evidence: Evidence) -> Judgement:
    run = evidence.run
    if run.status == "preempted" and run.reason == "cancelled":
        return Judgement(Action.FAIL, "cancelled: left as it is, a new snakemake call goes on with it")
    if run.status == "preempted":
        return _resubmit(evidence, "interrupted, saved, and not requeued by Slurm")
    if run.status == "running":
        return _resubmit(evidence, "it ended without a word from its launcher (killed, or its node was lost)")
    if run.status == "failed":
        action = Action.RETRY if run.retryable else Action.FAIL
        return Judgement(action, run.reason or "failed")
    return Judgement(Action.RETRY, f"the job ended as {evidence.state} before the run began")

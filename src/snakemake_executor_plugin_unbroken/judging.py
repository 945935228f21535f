"""From what Slurm and the run directory say about one job to what the executor does: a pure function.

The stock plugin takes UNKNOWN for success, waits for ever for PREEMPTED and for "CANCELLED by 0", and resubmits
crashes; this table is why we do not use its polling (docs/decisions/0002-own-polling.md).
"""

import os
from dataclasses import dataclass
from enum import Enum

from unbroken.launch.policy import ASKS_FOR_MORE
from unbroken.run_dir.status import RunStatus
from unbroken.slurm.reasons import LAUNCH_FAILED, explain
from unbroken.slurm.states import full_name, is_final


class Action(Enum):
    """What becomes of a submitted job."""

    WAIT = "wait"
    SUCCESS = "success"
    DONE = "done"
    """Success; the job itself waits to be started once more (Slurm requeued it as it ended), and is taken away."""
    RESUBMIT = "resubmit"
    """Start it again without spending one of Snakemake's retries: nothing failed."""
    RETRY = "retry"
    """A failure that another attempt may cure: Snakemake's retries count it."""
    ADOPT = "adopt"
    """Another live Slurm job trains the run: wait for that one."""
    RELEASE = "release"
    """Slurm holds it after a fault of its node: let it start on another one, and go on waiting."""
    CANCEL = "cancel"
    """It runs and gives no sign of life: cancel it, and submit the run again when it has ended."""
    FAIL = "fail"
    """Another attempt would end the same way, or a person does not want it."""


@dataclass(frozen=True)
class Evidence:
    """All that is known about a job at one poll."""

    state: str | None
    """Slurm's state in full, or None when neither the queue nor accounting knows how the job is."""
    run: RunStatus
    """What the run directory says now."""
    has_result: bool
    missed_polls: int = 0
    """Polls in a row at which Slurm answered and did not know the job."""
    stalled_resubmissions: int = 0
    """Resubmissions in a row that did not advance the run."""
    pending_reason: str = ""
    releases: int = 0
    """How often the job was released from a hold of Slurm's own since the run last advanced."""
    silent_s: float = 0.0
    """For how long the launcher of a running job has given no sign of life."""
    cancelled_by_us: bool = False
    """It was silent for longer."""
    held_by: str = ""
    """Who else holds the run directory's lease, in words; empty where nobody does."""
    holder_job: str | None = None
    """That holder's Slurm job, where it is in the queue."""
    being_stopped: bool = False
    """Snakemake was told to end: nothing new is started."""
    job_id: str = ""


@dataclass(frozen=True)
class Judgement:
    """What to do, and the sentence for the person at the terminal."""

    action: Action
    message: str = ""
    adopt: str = ""
    """The Slurm job to wait for, with ADOPT."""


_BY_A_PERSON = Judgement(Action.FAIL, "cancelled by a person: left as it is; a new snakemake call goes on with it")
MISSED_POLLS_LIMIT = 3
STALLED_LIMIT = 3
RELEASES_LIMIT = 3
SILENCE_LIMIT_S = float(os.environ.get("UNBROKEN_SILENCE_SECONDS") or 600)
HOPELESS_REASONS = frozenset({"BadConstraints", "DependencyNeverSatisfied", "InvalidAccount", "InvalidQOS"})
"""Pending reasons that no waiting cures."""


RETRYABLE_FAILURES = frozenset({"out_of_memory", "killed"})
"""Kinds of failure (RunStatus.failure) that the same Snakemake call may try again."""


def judge(evidence: Evidence) -> Judgement:
    """Decide what becomes of a job."""
    finished = evidence.has_result and evidence.run.status == "completed"
    if evidence.state is None:
        return Judgement(Action.SUCCESS) if finished else _unknown_to_slurm(evidence)
    if not is_final(evidence.state):
        by_this_job = finished and evidence.run.slurm_job_id == evidence.job_id
        if by_this_job and full_name(evidence.state) == "PENDING":
            return Judgement(Action.DONE, "the run is finished, but Slurm has requeued its job: taken out of the queue")
        return _in_the_queue(evidence)
    if finished:
        return Judgement(Action.SUCCESS)
    if evidence.cancelled_by_us:
        return _resubmit(evidence, "it is cancelled")
    state = full_name(evidence.state)
    if state == "COMPLETED":
        return _completed(evidence)
    if state == "CANCELLED" or _cancelled(evidence.run):
        return _BY_A_PERSON
    if state == "DEADLINE":
        return Judgement(Action.FAIL, "Slurm ended it because its deadline has passed")
    if state == "OUT_OF_MEMORY":
        return Judgement(Action.RETRY, "out of memory; the next attempt asks for more")
    if state == "FAILED":
        return _failed(evidence)
    return _resubmit(evidence, f"Slurm says {state} and does not queue it again")


def _cancelled(run: RunStatus) -> bool:
    return run.status == "preempted" and (run.reason or "").startswith("cancelled")


def _in_the_queue(evidence: Evidence) -> Judgement:
    state = full_name(evidence.state or "")
    if state == "RUNNING" and evidence.silent_s >= SILENCE_LIMIT_S and not evidence.cancelled_by_us:
        return Judgement(
            Action.CANCEL,
            f"Slurm says RUNNING, but its launcher has given no sign of life for {evidence.silent_s:.0f} s (the node "
            "hangs, or the controller has lost how it ended): cancelled, to start the run again",
        )
    if state != "PENDING":
        return Judgement(Action.WAIT)
    reason = explain(evidence.pending_reason)
    if reason.code in HOPELESS_REASONS:
        return Judgement(Action.FAIL, f"it can never start: {evidence.pending_reason}")
    if reason.code == LAUNCH_FAILED and evidence.releases < RELEASES_LIMIT and not evidence.being_stopped:
        return Judgement(Action.RELEASE, f"Slurm holds it because {reason.words}: released")
    return Judgement(Action.WAIT)


def _unknown_to_slurm(evidence: Evidence) -> Judgement:
    of_this_job = evidence.run.slurm_job_id == evidence.job_id
    told = of_this_job and evidence.run.status == "failed"
    if evidence.missed_polls < MISSED_POLLS_LIMIT and not told:
        return Judgement(Action.WAIT)
    if not of_this_job:  # the status, if there is one, is an earlier attempt's
        return _resubmit(evidence, "Slurm does not know the job any more, and it has not begun")
    if evidence.cancelled_by_us:
        return _resubmit(evidence, "it is cancelled")
    if _cancelled(evidence.run):
        return _BY_A_PERSON
    return _failed(evidence)


def _completed(evidence: Evidence) -> Judgement:
    """The launcher exits 0 only with a result, so one that is not seen here is late (a network file system).

    Snakemake itself waits for its outputs (latency-wait) and takes the job for failed when they do not come.
    A job that is not a run's has no status to ask.
    """
    if evidence.has_result or evidence.run.attempt == 0 or evidence.run.status in ("completed", "running"):
        return Judgement(Action.SUCCESS)
    return Judgement(Action.RETRY, f"Slurm says COMPLETED, but the run is {evidence.run.status} and has no result.json")


def _resubmit(evidence: Evidence, why: str) -> Judgement:
    if evidence.being_stopped:
        return Judgement(Action.FAIL, f"{why}; Snakemake is being stopped: a new call goes on with it")
    if evidence.stalled_resubmissions >= STALLED_LIMIT:
        return Judgement(Action.FAIL, f"{why}; submitted again {STALLED_LIMIT} times without any progress")
    return Judgement(Action.RESUBMIT, f"{why}: submitted again, it goes on from its last checkpoint")


def _failed(evidence: Evidence) -> Judgement:
    run = evidence.run
    if evidence.held_by and evidence.holder_job:
        return Judgement(
            Action.ADOPT, f"the run is trained by {evidence.held_by}: waiting for that job", evidence.holder_job
        )
    if evidence.held_by:
        return Judgement(Action.FAIL, f"the run is trained by {evidence.held_by}; when that has ended, call again")
    match run.status:
        case "preempted":
            return _resubmit(evidence, f"interrupted ({run.reason}) and not requeued")
        case "running":
            return _resubmit(evidence, "it ended without a word from its launcher (killed, or its node was lost)")
        case "failed":
            reason = run.reason or "failed"
            hopeless = run.failure == "out_of_memory" and "asked for" in reason and ASKS_FOR_MORE not in reason
            retry = run.failure in RETRYABLE_FAILURES and not hopeless
            return Judgement(Action.RETRY if retry else Action.FAIL, reason)
        case _:
            where = f"as {evidence.state}" if evidence.state else "unseen by Slurm"
            return Judgement(Action.RETRY, f"the job ended {where} before the run began; see its Slurm log")

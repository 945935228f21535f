"""The table "Who restarts a run": a pure function from how an attempt ended to what is done next.

It reads no file, no clock and no environment; whoever calls it has looked everything up before.
"""

from dataclasses import dataclass, field
from typing import Any

from unbroken import exit_codes
from unbroken.run_dir.status import RunStatus, State

STOP_SIGNALS = {"SIGHUP": 1, "SIGINT": 2, "SIGUSR1": 10, "SIGUSR2": 12, "SIGTERM": 15}
SIGKILL = 9
OUT_OF_MEMORY_TRIES = 3
"""So often one Snakemake call starts a run again with more memory."""
ASKS_FOR_MORE = "the next attempt asks for more"
"""Ends the reason of an out-of-memory kill that another attempt may survive; the executor retries only those."""


@dataclass(frozen=True)
class End:
    """How one attempt ended."""

    exit_code: int | None
    """Of the trainer; -n where signal n ended it; None where nobody saw it end."""
    started: bool = True
    """False where a signal came before there was a trainer."""
    has_result: bool = False
    result_is_whole: bool = False
    """result.json reads as JSON; looked at only where the trainer did not exit 0."""
    signals: tuple[str, ...] = ()
    """The stop signals forwarded to the trainer, each kind once, in order of arrival."""
    out_of_memory: bool = False
    mem_mb_asked: int | None = None
    mem_mb_used: int | None = None
    progressed: bool = False
    """global_step advanced, or (for a program that tells none) last.pt was replaced."""
    shutdown_recorded: bool = False
    """The trainer wrote graceful_shutdown for this attempt; its parents may have hidden its 42."""
    descendant_resumable: bool = False
    """A process below the trainer ended with 42 after its parent had gone."""
    behind_agent: bool = False
    """torchrun stands between: it answers any end of its workers with 1."""
    last_line: str = ""
    """The last line of the attempt's log: the error, where there is one."""
    stopped_ahead: bool = False
    """The launcher itself stopped the trainer ahead of the job's time limit."""


@dataclass(frozen=True)
class Limits:
    """What the collection allows; None is without limit."""

    max_resubmit_attempts: int | None = None
    no_progress_limit: int | None = 3
    early_preemption_limit: int | None = 20
    graceful: bool = True
    """enable_graceful_shutdown: the trainer is expected to answer a signal with 42."""
    requeue: bool = True
    memory_cap_mb: int | None = None


@dataclass(frozen=True)
class SlurmView:
    """What Slurm says about our own job when the attempt has ended."""

    job_id: str
    state: str = "RUNNING"
    preempted: bool = False
    """PreemptTime is set."""
    ending: bool = False
    """Slurm is taking the job down."""
    at_time_limit: bool = False
    node_failed: bool = False
    requeued_already: bool = False
    """Its restart count is higher than when this attempt began: somebody else has requeued it."""
    requeued_at_its_end: bool = False
    """Slurm itself requeues it once it ends; asked for a requeue as well, it would start once more after success."""

    @property
    def cancelled(self) -> bool:
        """By a person: the job is ending and Slurm names no reason of its own."""
        by_slurm = self.preempted or self.at_time_limit or self.node_failed or self.requeued_already
        return self.ending and not by_slurm


@dataclass(frozen=True)
class Decision:
    """What is written to run_status.json and what the launcher does then."""

    status: State
    reason: str
    exit_code: int
    """Of the launcher."""
    failure: str | None = None
    """Kind of failure: crash, no_result, out_of_memory, killed, budget, no_progress, early_preemptions."""
    requeue: bool = False
    changes: dict[str, Any] = field(default_factory=dict)
    """Counters that change with it."""


def decide(end: End, status: RunStatus, limits: Limits, slurm: SlurmView | None = None) -> Decision:
    """Judge the end of an attempt. ``status`` is that before it, ``slurm`` None where no job or no answer."""
    late = end.result_is_whole and _ended_by_signal(end, limits)
    if late or (end.exit_code == 0 and end.has_result):
        cleared = {"no_progress_count": 0, "early_preemptions": 0}
        reason = f"finished; {', '.join(end.signals)} came after the result" if late else "finished"
        return Decision("completed", reason, exit_codes.COMPLETED, changes=cleared)
    if end.exit_code is None:
        return _lost(end, status, limits)
    nothing_saved = not end.started or _ended_by_signal(end, limits)
    resumable = end.exit_code == exit_codes.RESUMABLE or end.shutdown_recorded or end.descendant_resumable
    if resumable or (nothing_saved and not end.out_of_memory):
        return _resumable(end, status, limits, slurm, saved=resumable)
    if end.out_of_memory:
        return _out_of_memory(end, status, limits)
    if end.exit_code == 0:
        return _failed("no_result", "ended without a result: the trainer exited 0 and wrote no result.json")
    if _killing_signal(end.exit_code) in (SIGKILL, *STOP_SIGNALS.values()):
        reason = f"{_ended(end)} and not for its memory: somebody or something killed the trainer"
        return _failed_without_progress("killed", reason, end, status, limits)
    return _failed("crash", f"crashed with {_ended(end)}" + (f": {end.last_line}" if end.last_line else ""))


def _killing_signal(code: int) -> int | None:
    """The signal behind an exit code, as the kernel (-n) or a shell (128+n) tells it."""
    if code < 0:
        return -code
    return code - 128 if 128 < code < 160 else None


def _ended(end: End) -> str:
    code = end.exit_code if end.exit_code is not None else 0
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _ended_by_signal(end: End, limits: Limits) -> bool:
    """The trainer had no handler for a signal that the launcher had forwarded."""
    if not end.signals or not end.exit_code:
        return False
    if end.behind_agent or not limits.graceful:
        return True
    return _killing_signal(end.exit_code) in {STOP_SIGNALS[name] for name in end.signals}


def _failed(kind: str, reason: str, changes: dict[str, Any] | None = None) -> Decision:
    return Decision("failed", reason, exit_codes.FAILED, kind, changes=changes or {})


def _out_of_memory(end: End, status: RunStatus, limits: Limits) -> Decision:
    count = status.out_of_memory_count + 1
    asked, cap = end.mem_mb_asked, limits.memory_cap_mb
    figures = f": it asked for {asked} MB and used {end.mem_mb_used} MB" if asked else ""
    if asked and cap and asked >= cap:
        then = f"that is the cap (memory_cap_mb {cap}): raise it, or make the run smaller"
    elif count > OUT_OF_MEMORY_TRIES:
        then = f"that was the {count}th time: raise mem_mb or memory_growth, then call again"
    else:
        then = ASKS_FOR_MORE
    return _failed("out_of_memory", f"out of memory ({_ended(end)}){figures}; {then}", {"out_of_memory_count": count})


def _count_progress(end: End, status: RunStatus) -> dict[str, Any]:
    return {"no_progress_count": 0 if end.progressed else status.no_progress_count + 1}


def _no_progress(count: int, limits: Limits) -> str | None:
    if limits.no_progress_limit is None or count < limits.no_progress_limit:
        return None
    return (
        f"no progress: {count} attempts in a row ended at the same step (no_progress_limit "
        f"{limits.no_progress_limit}); find out why, then `unbroken retry` or raise the limit"
    )


def _failed_without_progress(kind: str, reason: str, end: End, status: RunStatus, limits: Limits) -> Decision:
    changes = _count_progress(end, status)
    if why := _no_progress(changes["no_progress_count"], limits):
        return Decision("failed", f"{why}; the last one: {reason}", exit_codes.GAVE_UP, "no_progress", changes=changes)
    return Decision("failed", reason, exit_codes.FAILED, kind, changes=changes)


def _lost(end: End, status: RunStatus, limits: Limits) -> Decision:
    """The launcher itself was killed or its node went down; the next attempt judges it."""
    if end.out_of_memory:
        changes = {"out_of_memory_count": status.out_of_memory_count + 1}
        return _failed("out_of_memory", "out of memory: Slurm ended the job", changes)
    decision = _failed_without_progress("killed", "the attempt ended without a word", end, status, limits)
    if decision.failure == "no_progress":
        return decision
    reason = "the attempt ended without a word (node lost or launcher killed)"
    return Decision("preempted", reason, exit_codes.RESUMABLE, changes=decision.changes)


def _resumable(end: End, status: RunStatus, limits: Limits, slurm: SlurmView | None, saved: bool) -> Decision:
    what = "state saved" if saved else "nothing new saved"
    signals = ", ".join(end.signals) or "no signal"
    if slurm is not None and slurm.cancelled:
        return Decision("preempted", f"cancelled by a person ({signals}); {what}", exit_codes.RESUMABLE)
    limited = end.stopped_ahead or (slurm is not None and slurm.at_time_limit)
    changes, gave_up = _count(end, status, limits, limited)
    if gave_up:
        return Decision("failed", gave_up[1], exit_codes.GAVE_UP, gave_up[0], changes=changes)
    if limited:
        cause = "time limit"
    elif slurm is not None and slurm.preempted:
        cause = "preempted by Slurm"
    elif slurm is not None and slurm.node_failed:
        cause = "stopped by Slurm, which gave its node up"
    else:
        cause = "stopped" if end.signals else "stopped by itself"
    by_slurm = slurm is not None and (slurm.requeued_already or slurm.requeued_at_its_end)
    requeue = slurm is not None and limits.requeue and not by_slurm
    return Decision("preempted", f"{cause} ({signals}); {what}", exit_codes.RESUMABLE, requeue=requeue, changes=changes)


def _count(end: End, status: RunStatus, limits: Limits, limited: bool) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """The counters after a resumable end, and (kind, reason) where one of them is used up."""
    if end.signals and not end.progressed and not limited:
        early = status.early_preemptions + 1
        changes: dict[str, Any] = {"early_preemptions": early}
        if limits.early_preemption_limit is not None and early > limits.early_preemption_limit:
            return changes, (
                "early_preemptions",
                f"stopped {early} times in a row before its first step (early_preemption_limit "
                f"{limits.early_preemption_limit}); `unbroken retry` or raise the limit",
            )
        return changes, None
    changes = {"resubmit_count": status.resubmit_count + 1, **_count_progress(end, status)}
    if end.progressed:
        changes["early_preemptions"] = 0
    allowed = limits.max_resubmit_attempts
    if allowed is not None and changes["resubmit_count"] > allowed:
        return changes, (
            "budget",
            f"budget used: {changes['resubmit_count']} resumable exits (max_resubmit_attempts {allowed}); "
            "`unbroken retry` or raise the limit",
        )
    why = _no_progress(changes["no_progress_count"], limits)
    return changes, ("no_progress", why) if why else None

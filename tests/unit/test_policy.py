"""The table "Who restarts a run", row by row."""

from dataclasses import replace
from typing import Any

import pytest

from unbroken.launch.policy import ASKS_FOR_MORE, Decision, End, Limits, SlurmView, decide
from unbroken.run_dir.status import RunStatus

Outcome = tuple[str, str | None, int, bool]
"""Status, kind of failure, the launcher's exit code, whether it asks for a requeue."""
DONE: Outcome = ("completed", None, 0, False)
REQUEUE: Outcome = ("preempted", None, 42, True)
AGAIN: Outcome = ("preempted", None, 42, False)
TERM, USR1 = ("SIGTERM",), ("SIGUSR1",)

SAVED = End(42, progressed=True, signals=("SIGTERM",))
NOT_FURTHER = replace(SAVED, progressed=False)
BEFORE_HANDLER = End(-15, signals=TERM)
OFTEN_EARLY = RunStatus(early_preemptions=5)
OOM_AND_TERM = replace(BEFORE_HANDLER, out_of_memory=True)
STUCK = RunStatus(no_progress_count=2)
PREEMPTED = SlurmView("1", "COMPLETING", preempted=True, ending=True)
CANCELLED = SlurmView("1", "COMPLETING", ending=True)
AT_LIMIT = SlurmView("1", "COMPLETING", ending=True, at_time_limit=True)
IN_GRACE = SlurmView("1", preempted=True, requeued_at_its_end=True)
REQUEUED = SlurmView("1", "COMPLETING", ending=True, requeued_already=True)
RUNNING = SlurmView("1")
LIMITS = Limits(max_resubmit_attempts=2, no_progress_limit=3, early_preemption_limit=5)
FRESH = RunStatus()


def failed(kind: str) -> Outcome:
    return ("failed", kind, 1, False)


def gave_up(kind: str) -> Outcome:
    return ("failed", kind, 43, False)


# name, end, status before, limits, Slurm, outcome
TABLE: list[tuple[str, End, RunStatus, Limits, SlurmView | None, Outcome]] = [
    ("0, result", End(0, has_result=True), FRESH, LIMITS, None, DONE),
    ("0, result, signalled", End(0, has_result=True, signals=TERM), FRESH, LIMITS, PREEMPTED, DONE),
    ("0, no result", End(0), FRESH, LIMITS, None, failed("no_result")),
    ("0, but shutdown recorded", End(0, shutdown_recorded=True), FRESH, LIMITS, RUNNING, REQUEUE),
    ("42, budget used", SAVED, RunStatus(resubmit_count=2), LIMITS, RUNNING, gave_up("budget")),
    ("42, budget left", SAVED, RunStatus(resubmit_count=1), LIMITS, RUNNING, REQUEUE),
    ("42, no budget set", SAVED, RunStatus(resubmit_count=10**6), Limits(), RUNNING, REQUEUE),
    ("42, no progress", End(42), RunStatus(no_progress_count=2), LIMITS, RUNNING, gave_up("no_progress")),
    ("42, no step in a whole job", NOT_FURTHER, STUCK, LIMITS, AT_LIMIT, gave_up("no_progress")),
    ("42, progress again", SAVED, RunStatus(no_progress_count=2), LIMITS, RUNNING, REQUEUE),
    ("42, cancelled", SAVED, FRESH, LIMITS, CANCELLED, AGAIN),
    ("42, cancelled, budget used", SAVED, RunStatus(resubmit_count=2), LIMITS, CANCELLED, AGAIN),
    ("42, preempted", SAVED, FRESH, LIMITS, PREEMPTED, REQUEUE),
    ("42, time limit", SAVED, FRESH, LIMITS, AT_LIMIT, REQUEUE),
    ("42, requeued by others", SAVED, FRESH, LIMITS, REQUEUED, AGAIN),
    ("42, Slurm requeues it at its end", SAVED, FRESH, LIMITS, IN_GRACE, AGAIN),
    ("42, requeue off", SAVED, FRESH, replace(LIMITS, requeue=False), PREEMPTED, AGAIN),
    ("42, no Slurm", SAVED, FRESH, LIMITS, None, AGAIN),
    ("42 behind a shell", End(138, descendant_resumable=True, signals=USR1), FRESH, LIMITS, RUNNING, REQUEUE),
    ("42 behind torchrun", End(1, shutdown_recorded=True, behind_agent=True), FRESH, LIMITS, RUNNING, REQUEUE),
    ("before the handler", End(-15, signals=TERM), FRESH, LIMITS, PREEMPTED, REQUEUE),
    ("before the handler, by a shell", End(138, signals=USR1), FRESH, LIMITS, None, AGAIN),
    ("before the handler, cancelled", End(-15, signals=TERM), FRESH, LIMITS, CANCELLED, AGAIN),
    ("before the trainer", End(0, started=False, signals=TERM), FRESH, LIMITS, RUNNING, REQUEUE),
    ("before the handlers behind torchrun", End(1, signals=TERM, behind_agent=True), FRESH, LIMITS, RUNNING, REQUEUE),
    ("early again and again", BEFORE_HANDLER, OFTEN_EARLY, LIMITS, PREEMPTED, gave_up("early_preemptions")),
    ("graceful shutdown off", End(3, signals=TERM), FRESH, replace(LIMITS, graceful=False), None, AGAIN),
    ("out of memory", End(-9, out_of_memory=True), FRESH, LIMITS, RUNNING, failed("out_of_memory")),
    ("out of memory in a worker", End(1, out_of_memory=True), FRESH, LIMITS, RUNNING, failed("out_of_memory")),
    ("out of memory and TERM", OOM_AND_TERM, FRESH, LIMITS, RUNNING, failed("out_of_memory")),
    ("kill -9", End(-9), FRESH, LIMITS, RUNNING, failed("killed")),
    ("kill -9 behind a shell", End(137), FRESH, LIMITS, None, failed("killed")),
    ("kill -9 again and again", End(-9), RunStatus(no_progress_count=2), LIMITS, None, gave_up("no_progress")),
    ("kill -TERM by others", End(-15), FRESH, LIMITS, RUNNING, failed("killed")),
    ("crash", End(1, last_line="ValueError: x"), FRESH, LIMITS, RUNNING, failed("crash")),
    ("crash after a signal", End(1, signals=TERM), FRESH, LIMITS, PREEMPTED, failed("crash")),
    ("segmentation fault", End(-11, signals=TERM), FRESH, LIMITS, RUNNING, failed("crash")),
    ("lost without a word", End(None), FRESH, LIMITS, None, AGAIN),
    ("lost again and again", End(None), RunStatus(no_progress_count=2), LIMITS, None, gave_up("no_progress")),
    ("lost for its memory", End(None, out_of_memory=True), FRESH, LIMITS, None, failed("out_of_memory")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "status", "limits", "slurm", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_table(end: End, status: RunStatus, limits: Limits, slurm: SlurmView | None, expected: Any) -> None:
    made = decide(end, status, limits, slurm)
    assert (made.status, made.failure, made.exit_code, made.requeue) == expected
    assert made.reason


def counted(end: End, slurm: SlurmView | None = None, **before: int) -> dict[str, Any]:
    return decide(end, RunStatus(**before), Limits(), slurm).changes  # type: ignore[arg-type]


def test_what_each_end_counts() -> None:
    assert counted(SAVED) == {"resubmit_count": 1, "no_progress_count": 0, "early_preemptions": 0}
    assert counted(End(42), resubmit_count=4, no_progress_count=1) == {"resubmit_count": 5, "no_progress_count": 2}
    assert counted(End(-15, signals=("SIGTERM",)), early_preemptions=2) == {"early_preemptions": 3}
    assert counted(SAVED, CANCELLED) == {}
    assert counted(End(-9, out_of_memory=True), out_of_memory_count=1) == {"out_of_memory_count": 2}
    assert counted(End(1)) == {}
    assert counted(End(-9, progressed=True), no_progress_count=2) == {"no_progress_count": 0}


def test_it_ends_whatever_happens() -> None:
    """The same end without progress, over and over, is not repeated for ever: it fails, or the budget ends it."""
    limits = Limits(max_resubmit_attempts=7)
    for end in (End(42), End(-9), End(None), End(-15, signals=("SIGTERM",)), SAVED, replace(SAVED, progressed=False)):
        status, made = RunStatus(), Decision("pending", "", 0)
        attempts = 0
        while made.exit_code != 43:
            made = decide(end, status, limits, RUNNING)
            status = replace(status, **made.changes)
            attempts += 1
            assert attempts <= 21, end


def test_reasons_name_the_limit_and_the_way_out() -> None:
    made = decide(SAVED, RunStatus(resubmit_count=2), LIMITS)
    assert "max_resubmit_attempts 2" in made.reason and "unbroken retry" in made.reason
    assert decide(End(1, last_line="ValueError: x"), FRESH, LIMITS).reason == "crashed with exit code 1: ValueError: x"


def test_out_of_memory_says_asked_and_used_and_what_comes_next() -> None:
    end = End(-9, out_of_memory=True, mem_mb_asked=700, mem_mb_used=690)
    grows = decide(end, RunStatus(), Limits(memory_cap_mb=1000))
    assert "asked for 700 MB and used 690 MB" in grows.reason and grows.reason.endswith(ASKS_FOR_MORE)
    capped = decide(end, RunStatus(), Limits(memory_cap_mb=700))
    assert "memory_cap_mb 700" in capped.reason and ASKS_FOR_MORE not in capped.reason
    often = decide(end, RunStatus(out_of_memory_count=3), Limits())
    assert "4th time" in often.reason and ASKS_FOR_MORE not in often.reason


def test_a_signal_that_comes_after_the_result_costs_nothing() -> None:
    end = replace(BEFORE_HANDLER, has_result=True, result_is_whole=True)
    decision = decide(end, RunStatus(), Limits(), RUNNING)
    assert (decision.status, decision.exit_code, decision.requeue) == ("completed", 0, False)
    torn = decide(replace(end, result_is_whole=False), RunStatus(), Limits(), RUNNING)
    assert torn.status == "preempted"

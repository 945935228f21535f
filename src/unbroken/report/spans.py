"""What the time of an attempt went into: what was kept, lost, and done a second time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unbroken.report.text import parse_time
from unbroken.slurm.accounting_rows import AccountingRow

Kind = Literal["queued", "starting", "running", "saving", "lost", "replayed"]
Ending = Literal["completed", "interrupted", "failed", "killed", "live"]


@dataclass(frozen=True)
class Span:
    """One interval, seconds since 1970."""

    kind: Kind
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.start)


@dataclass
class Attempt:
    """One start of the trainer."""

    number: int
    start: float
    end: float
    ending: Ending
    reason: str = ""
    job_id: str | None = None
    first_step: int | None = None
    """Where it resumed; None for a start from nothing."""
    last_step: int | None = None
    """The last step it saved."""
    spans: list[Span] = field(default_factory=list)
    """What its time went into, in order; together they cover it."""
    saves: list[float] = field(default_factory=list)
    """When each checkpoint was complete."""
    row: AccountingRow | None = None
    """What Slurm's accounting says of it."""
    requeued: bool = False
    """Slurm, as far as is known, put its job back into the queue."""

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.start)

    def spent(self, *kinds: Kind) -> float:
        """Seconds that went into these kinds."""
        return sum(span.seconds for span in self.spans if span.kind in kinds)


def _number(event: dict[str, Any], key: str) -> float | None:
    value = event.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def fill(attempt: Attempt, group: Sequence[dict[str, Any]], saves_known: bool, redo: float) -> float:
    """Cut an attempt into spans. ``redo``: seconds of training lost before it; returns what is lost after it."""
    cursor = attempt.start
    resumed = next((event for event in group if event.get("event") == "resumed"), None)
    if resumed is not None:
        step = _number(resumed, "global_step")
        attempt.first_step = None if step is None else int(step)
        cursor = min(max(parse_time(resumed["time"]) or cursor, cursor), attempt.end)
        _add(attempt, "starting", attempt.start, cursor)
    kept_until = cursor
    left = redo
    for event in group:
        if event.get("event") not in ("checkpoint_saved", "graceful_shutdown"):
            continue
        if event["event"] == "graceful_shutdown" and event.get("saved") is False:
            continue
        done = min(parse_time(event["time"]) or cursor, attempt.end)
        step = _number(event, "global_step")
        attempt.last_step = attempt.last_step if step is None else int(step)
        if event["event"] == "graceful_shutdown":
            continue  # its checkpoint has an event of its own
        stall = _number(event, "stall_s")  # shorter than the save where that is written behind the training
        began = max(cursor, done - ((_number(event, "seconds") or 0.0) if stall is None else stall))
        left = _train(attempt, cursor, began, left)
        _add(attempt, "saving", began, done)
        attempt.saves.append(done)
        cursor = kept_until = max(cursor, done)
    saved_at_end = attempt.ending in ("completed", "live") or any(
        event.get("event") == "graceful_shutdown" and event.get("saved") is not False for event in group
    )
    if saved_at_end or not saves_known:
        _train(attempt, cursor, attempt.end, left)
        return 0.0
    _add(attempt, "lost", cursor, attempt.end)
    return max(left, attempt.end - kept_until)


def _train(attempt: Attempt, start: float, end: float, redo: float) -> float:
    """Training from ``start`` to ``end``, its first ``redo`` seconds a second time; returns what remains of those."""
    middle = min(end, start + redo)
    _add(attempt, "replayed", start, middle)
    _add(attempt, "running", middle, end)
    return max(0.0, redo - max(0.0, end - start))


def _add(attempt: Attempt, kind: Kind, start: float, end: float) -> None:
    if end > start:
        attempt.spans.append(Span(kind, start, end))

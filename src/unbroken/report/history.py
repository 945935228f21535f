"""What happened to a run: its attempts in order, and its time in the queue."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from unbroken.report.records import Record
from unbroken.report.spans import Attempt, Ending, Span, fill
from unbroken.report.text import parse_time
from unbroken.slurm.accounting_rows import AccountingRow

_ENDS: dict[str, Ending] = {"run_completed": "completed", "run_failed": "failed"}
_SLACK_S = 90.0
"""Clocks of nodes and of the accounting may differ by so much."""


@dataclass(frozen=True)
class History:
    """All attempts of a run, oldest first, and its time in the queue."""

    record: Record
    attempts: list[Attempt]
    queued: list[Span]
    saves_known: bool
    """Whether the trainer records its saves; otherwise nothing is known about lost time."""

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """When the run was in the queue or training, seconds since 1970."""
        waits = [(span.start, span.end) for span in self.queued]
        return waits + [(attempt.start, attempt.end) for attempt in self.attempts]

    @property
    def start(self) -> float | None:
        return min((start for start, _ in self.intervals), default=None)

    @property
    def end(self) -> float | None:
        return max((end for _, end in self.intervals), default=None)

    @property
    def interruptions(self) -> list[Attempt]:
        """Attempts that did not finish the run."""
        return [attempt for attempt in self.attempts if attempt.ending not in ("completed", "live")]


def read_history(record: Record, now: float, rows: Iterable[AccountingRow] = ()) -> History:
    """Order a run's events into attempts. ``rows``: its jobs in Slurm's accounting, where there are any."""
    groups = _by_attempt(record.events)
    parents = [row for row in rows if not row.step]
    known = record.run.of.trainer is not None or any(
        event.get("event") in ("checkpoint_saved", "graceful_shutdown") for event in record.events
    )
    attempts: list[Attempt] = []
    redo = 0.0
    for index, group in enumerate(groups):
        following = parse_time(groups[index + 1][0].get("time")) if index + 1 < len(groups) else None
        attempt = _attempt(record, group, following, now, parents)
        redo = fill(attempt, group, known, redo)
        attempts.append(attempt)
    return History(record, attempts, _queued(record, attempts, parents, now), known)


def _by_attempt(events: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The events of each attempt that has started; what comes between two attempts belongs to the earlier."""
    groups: list[list[dict[str, Any]]] = []
    for event in events:
        if parse_time(event.get("time")) is None:
            continue
        if event.get("event") == "run_started":
            groups.append([event])
        elif groups:
            groups[-1].append(event)
    return groups


def _attempt(
    record: Record,
    group: list[dict[str, Any]],
    following: float | None,
    now: float,
    parents: list[AccountingRow],
) -> Attempt:
    first = group[0]
    number = first["attempt"] if isinstance(first.get("attempt"), int) else 0
    start = parse_time(first["time"]) or 0.0
    job_id = str(first["slurm_job_id"]) if first.get("slurm_job_id") else None
    row = _row_of(job_id, start, parents)
    times = [parse_time(event["time"]) or start for event in group if event.get("attempt") == first.get("attempt")]
    closing = next((event for event in group if event.get("event") in _ENDS), None)
    shutdown = next((event for event in group if event.get("event") == "graceful_shutdown"), None)
    names = {event.get("event") for event in group}
    reason = str((closing or shutdown or {}).get("reason") or "")
    ending: Ending
    if closing is not None:
        ending, end = _ENDS[str(closing["event"])], parse_time(closing["time"]) or start
    elif following is None and record.live:
        ending, end = "live", max(now, start)
    else:
        resumable = shutdown is not None or "requeued" in names
        ending = "interrupted" if resumable else "killed"
        end = max(times)
        if ending == "killed":
            end = max(end, _last_sign(record, number, row))
        reason = reason or (record.reason if following is None else "")
    if following is not None:
        end = min(end, following)
    if shutdown is not None and not reason and shutdown.get("signal"):
        reason = f"stopped by {shutdown['signal']}"
    requeued = "requeued" in names and "requeue_refused" not in names
    text = reason or _default_reason(ending)
    return Attempt(
        number, start, max(start, end), ending, text, job_id, row=row, requeued=requeued or ending == "killed"
    )


def _default_reason(ending: Ending) -> str:
    return {
        "completed": "finished",
        "interrupted": "interrupted, to go on",
        "killed": "ended without a word (killed, or its node was lost)",
        "failed": "failed",
        "live": "running now",
    }[ending]


def _last_sign(record: Record, number: int, row: AccountingRow | None) -> float:
    """When an attempt that said nothing at its end was last alive: by accounting, else by its log."""
    ended = parse_time(row.ended) if row else None
    if ended is not None:
        return ended
    try:
        return record.paths.attempt_log(number).stat().st_mtime
    except OSError:
        return 0.0


def _row_of(job_id: str | None, start: float, parents: list[AccountingRow]) -> AccountingRow | None:
    """The accounting row that an attempt ran in: of its job, the newest that began before it."""
    fitting = [
        (began, row)
        for row in parents
        if job_id in (row.raw_id, row.job_id) and (began := parse_time(row.started)) and began <= start + _SLACK_S
    ]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _queued(record: Record, attempts: list[Attempt], parents: list[AccountingRow], now: float) -> list[Span]:
    """Time in Slurm's queue: from submission by the accounting, else from our own requeue, to the next start."""
    spans = []
    for index, attempt in enumerate(attempts):
        before = attempts[index - 1] if index else None
        since = parse_time(attempt.row.submitted) if attempt.row else None
        if since is None and before is not None and before.requeued and before.job_id == attempt.job_id:
            since = before.end
        if since is not None:
            spans.append(Span("queued", max(since, before.end if before else since), attempt.start))
    started = {id(attempt.row) for attempt in attempts}
    waiting = [row for row in parents if row.started is None and row.state == "PENDING" and id(row) not in started]
    if waiting and (since := parse_time(waiting[-1].submitted)) is not None and not record.live:
        spans.append(Span("queued", max(since, attempts[-1].end if attempts else since), now))
    return [span for span in spans if span.seconds > 0]

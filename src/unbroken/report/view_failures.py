"""Runs that are not finished, and why."""

from collections import Counter

from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import Record
from unbroken.report.tables import Column, state_mark, table
from unbroken.report.text import plural

MOST_RUNS = 100
LOG_LINES = 12
MOST_LOGS = 10


def failures_section(records: list[Record]) -> tuple[str, str, Markup] | None:
    """Failed runs first, then those that are stopped; None where there are none."""
    failed = [record for record in records if record.state == "failed"]
    stopped = [record for record in records if record.state == "preempted"]
    shown = (failed + stopped)[:MOST_RUNS]
    if not shown:
        return None
    rows = [
        [
            record.name,
            state_mark(record.state),
            record.reason or "no reason was recorded",
            record.status.attempt,
            str(record.log or "–"),
        ]
        for record in shown
    ]
    columns = [
        Column("run", "name"),
        Column("state"),
        Column("reason", "text"),
        Column("attempts", "num"),
        Column("log", "text"),
    ]
    kinds = Counter(record.status.failure or "unknown" for record in failed)
    counted = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    parts = [
        tag("p", f"{plural(len(failed), 'run')} failed ({counted}).") if failed else None,
        table(columns, rows),
        tag("p", f"{plural(len(failed) + len(stopped) - len(shown), 'more run')} not shown.", class_="soft small")
        if len(failed) + len(stopped) > len(shown)
        else None,
        *(_log(record) for record in failed[:MOST_LOGS]),
    ]
    return "failures", "Not finished, and why", join(parts)


def _log(record: Record) -> Markup | None:
    lines = last_lines(record)
    if not lines:
        return None
    return tag("details", tag("summary", f"Last lines of {record.name}"), tag("pre", "\n".join(lines)))


def last_lines(record: Record, most: int = LOG_LINES) -> list[str]:
    """The end of the newest attempt's log; empty where there is none."""
    if record.log is None:
        return []
    try:
        with open(record.log, "rb") as file:
            file.seek(max(0, record.log.stat().st_size - 32_768))
            tail = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in tail.replace("\r\n", "\n").split("\n")]
    return [line[:400] for line in lines if line][-most:]

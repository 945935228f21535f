"""Code changes between attempts: a run whose code changed is not one experiment any more."""

import json

from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import Record
from unbroken.report.tables import Column, table
from unbroken.report.text import clock, parse_time, plural

MOST_ROWS = 100
_OWN = ("time", "event", "attempt")


def code_section(records: list[Record]) -> tuple[str, str, Markup] | None:
    """None where no attempt recorded a change."""
    rows = [
        [
            record.name,
            event.get("attempt", "–"),
            clock(parse_time(event.get("time")) or 0.0),
            "; ".join(f"{key}: {_short(value)}" for key, value in event.items() if key not in _OWN) or "changed",
        ]
        for record in records
        for event in record.events
        if event.get("event") == "code_changed"
    ]
    if not rows:
        return None
    runs = len({str(row[0]) for row in rows})
    columns = [Column("run", "name"), Column("attempt", "num"), Column("when"), Column("what changed", "text")]
    rest = len(rows) - MOST_ROWS
    return (
        "code",
        "Code changes between attempts",
        join(
            [
                tag("p", f"The code of {plural(runs, 'run')} was not the same in all attempts."),
                table(columns, rows[:MOST_ROWS], cards=True),
                tag("p", f"{plural(rest, 'more change')} not shown.", class_="soft small") if rest > 0 else None,
            ]
        ),
    )


def _short(value: object, most: int = 400) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 3]}..."

"""Tables, durations and JSON on a terminal or in a pipe."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

FEW_ROWS = 300
"""Up to here a terminal gets a drawn table; above it plain columns, which cost a tenth."""


FULL_BAR = "#" * 10


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] | None = None) -> None:
    """Rows in columns. ``styles``: one rich style a row, used on a terminal alone."""
    if sys.stdout.isatty() and len(rows) <= FEW_ROWS:
        _draw(headers, rows, styles)
        return
    sys.stdout.write(plain_table(headers, rows))


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as text, one line a row. Columns without any content are left out."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(headers)
    widths = [max((*map(len, column), len(header))) for column, header in zip(columns, headers, strict=True)]
    kept = [index for index, column in enumerate(columns) if any(column)] if rows else range(len(headers))
    form = "  ".join(f"%-{widths[index]}s" for index in kept)
    picked: Iterable[tuple[str, ...]] = zip(*(columns[index] for index in kept), strict=True)
    lines = [form % tuple(headers[index] for index in kept), *(form % row for row in picked)]
    return "\n".join(map(str.rstrip, lines)) + "\n"


def _draw(headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    kept = [index for index in range(len(headers)) if any(row[index] for row in rows) or not rows]
    for index in kept:
        table.add_column(headers[index], overflow="fold")
    for number, row in enumerate(rows):
        table.add_row(*(Text(row[index]) for index in kept), style=styles[number] if styles else None)
    Console().print(table)


def duration(seconds: float | None) -> str:
    """``3 d 4 h``, ``2 h 5 min``, ``40 s``; empty for None."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    if whole >= 86400:
        return f"{whole // 86400} d {whole % 86400 // 3600} h"
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min" if whole >= 60 else f"{whole} s"


def bar(done: int, total: int | None, width: int = 10) -> str:
    """``#####.....`` for the share done; empty where the total is unknown."""
    if not total:
        return ""
    filled = min(width, done * width // total)
    return "#" * filled + "." * (width - filled)

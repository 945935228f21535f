"""Tables of the report: scroll sideways on a narrow screen, keep their head on paper."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from unbroken.report.markup import Markup, tag
from unbroken.report.records import MARKS


@dataclass(frozen=True)
class Column:
    """A head and how its cells look: ``num`` right-aligned, ``text`` wrapped, ``name`` a row's head."""

    head: str
    kind: str = ""


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], caption: str = "", **attributes: Any) -> Markup:
    """A table; a row may be preceded by a Markup class name through ``Row``."""
    head = tag("tr", *(tag("th", column.head, scope="col", class_=column.kind or None) for column in columns))
    body = [
        tag(
            "tr",
            *(_cell(column, value) for column, value in zip(columns, row, strict=False)),
            class_=getattr(row, "kind", None),
        )
        for row in rows
    ]
    inner = tag(
        "table", tag("caption", caption) if caption else None, tag("thead", head), tag("tbody", *body), **attributes
    )
    return tag("div", inner, class_="wide", tabindex="0", role="region", aria_label=caption or columns[0].head)


class Row(list[Any]):
    """Cells with a class for their row."""

    def __init__(self, kind: str, cells: Iterable[Any]) -> None:
        super().__init__(cells)
        self.kind = kind


def _cell(column: Column, value: Any) -> Markup:
    if column.kind == "name":
        return tag("th", value, scope="row", class_="name")
    return tag("td", value, class_=column.kind or None)


def state_mark(state: str) -> Markup:
    """A run's state as shape and word."""
    return tag("span", tag("span", MARKS.get(state, "○"), aria_hidden="true"), state, class_=f"mark {state}")

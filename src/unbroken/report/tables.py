"""Tables of the report: scroll sideways on a narrow screen, keep their head on paper."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from unbroken.report.markup import Markup, tag, text
from unbroken.report.records import MARKS


@dataclass(frozen=True)
class Column:
    """A head and how its cells look: ``num`` right-aligned, ``text`` wrapped, ``name`` a row's head."""

    head: str
    kind: str = ""


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], cards: bool = False) -> Markup:
    """A table. ``cards``: on a narrow screen a row becomes a card instead of scrolling sideways."""
    head = tag(
        "tr", *(tag("th", breakable(column.head), scope="col", class_=column.kind or None) for column in columns)
    )
    body = [
        tag(
            "tr",
            *(_cell(column, value) for column, value in zip(columns, row, strict=False)),
            class_=getattr(row, "kind", None),
        )
        for row in rows
    ]
    inner = tag("table", tag("thead", head), tag("tbody", *body))
    kind = "wide cards" if cards else "wide"
    return tag("div", inner, class_=kind, tabindex="0", role="region", aria_label=columns[0].head)


class Row(list[Any]):
    """Cells with a class for their row."""

    def __init__(self, kind: str, cells: Iterable[Any]) -> None:
        super().__init__(cells)
        self.kind = kind


def breakable(name: str) -> Markup:
    """A dotted or underscored name that may be broken after a dot or an underscore."""
    return Markup(text(name).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def _cell(column: Column, value: Any) -> Markup:
    if column.kind == "name":
        return tag("th", value, scope="row", class_="name")
    return tag("td", value, class_=column.kind or None, data_head=column.head)


def state_mark(state: str) -> Markup:
    """A run's state as shape and word."""
    return tag("span", tag("span", MARKS.get(state, "○"), aria_hidden="true"), state, class_=f"mark {state}")

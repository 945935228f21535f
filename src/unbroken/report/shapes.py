"""The small shapes and patterns of the charts: each means one thing, in colour, in grey and without colour."""

from unbroken.report.markup import Markup, percent, tag

_PATHS = {
    "completed": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0Z",
    "interrupted": "M0-6.5L6 0L0 6.5L-6 0Z",
    "killed": "M-5.5-5H5.5L0 5.5Z",
    "failed": "M-5-3.2L-3.2-5L0-1.8L3.2-5L5-3.2L1.8 0L5 3.2L3.2 5L0 1.8L-3.2 5L-5 3.2L-1.8 0Z",
    "live": "M-4-5.5L6 0L-4 5.5Z",
}

PATTERNS = Markup(
    '<svg width="0" height="0" class="patterns" aria-hidden="true" focusable="false"><defs>'
    '<pattern id="p-lost" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" class="f-paper"/><rect width="3" height="6" class="f-lost"/></pattern>'
    '<pattern id="p-replayed" width="4" height="4" patternUnits="userSpaceOnUse">'
    '<rect width="4" height="4" class="f-replayed"/><rect width="1.3" height="4" class="f-running"/></pattern>'
    '<pattern id="p-break" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<rect width="1" height="4" class="f-queued"/></pattern>'
    "</defs></svg>"
)
"""Stands once in the page; the charts point to it."""


def shape(kind: str, x: str, y: str, title: str = "") -> Markup:
    """A marker centred at (x, y), any SVG lengths."""
    path = tag("path", tag("title", title) if title else None, d=_PATHS[kind], class_=f"m-{kind}")
    return tag("svg", path, x=x, y=y, overflow="visible", width="1", height="1")


def bar(kind: str, start: float, end: float, y: float, height: float) -> Markup:
    """A stretch of time, places as fractions."""
    return tag(
        "rect", x=percent(start), y=y, width=percent(max(end - start, 0.0015)), height=height, class_=f"b-{kind}"
    )


def key(items: list[tuple[Markup, str]]) -> Markup:
    """A legend: swatch and meaning."""
    return tag("ul", *(tag("li", swatch, tag("span", meaning)) for swatch, meaning in items), class_="key")


def swatch(kind: str) -> Markup:
    """A sample of a bar, or of a marker."""
    if kind in _PATHS:
        inner = shape(kind, "9", "8")
    elif kind == "saving":
        inner = tag("rect", x="8", y="2", width="2", height="12", class_="b-saving")
    else:
        inner = tag("rect", x="0.5", y="2.5", width="17", height="11", class_=f"b-{kind}")
    return tag("svg", inner, width="18", height="16", aria_hidden="true")


def edge(place: float) -> str | None:
    """A class that keeps a label near the end of an axis inside it."""
    return "first" if place < 0.06 else "last" if place > 0.94 else None

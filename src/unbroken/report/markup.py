"""HTML and SVG as nested calls; every text is escaped unless it is markup already."""

import re
from collections.abc import Iterable
from html import escape
from typing import Any

VOID = frozenset(("br", "meta", "hr", "col", "img"))
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_TERMINAL = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
_TURNS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks that turn the direction of writing: a log line with one could make others read backwards."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def clean(value: object) -> str:
    """Text without terminal colours, control characters and direction marks."""
    text = _TERMINAL.sub("", str(value))
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", _TURNS.sub("", text))


def text(value: object) -> Markup:
    """``value`` as escaped HTML."""
    return value if isinstance(value, Markup) else Markup(escape(clean(value), quote=True))


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """The parts one after another; None is nothing."""
    return Markup(separator.join(text(part) for part in parts if part is not None))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """``<name ...>children</name>``. ``class_`` is class, ``stroke_width`` stroke-width; None and False leave out."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def percent(fraction: float) -> str:
    """A fraction as a CSS percentage, short and without an exponent."""
    return f"{100 * fraction:.3f}".rstrip("0").rstrip(".") + "%"

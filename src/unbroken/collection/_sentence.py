"""How an error is worded: one sentence with the file, the line, the key, its value and the fix."""

import difflib
import json
from collections.abc import Callable, Iterable
from typing import Any

from unbroken.errors import CollectionError

MAX_SHOWN = 60


def show(value: Any) -> str:
    """A value on one line, shortened in the middle."""
    try:
        text = json.dumps(value, ensure_ascii=True, default=repr)
    except (ValueError, RecursionError):
        text = "a value that cannot be shown"
    if len(text) > MAX_SHOWN:
        text = f"{text[: MAX_SHOWN - 20]}...{text[-15:]}"
    return text


def dotted(keys: Iterable[str | int]) -> str:
    """``("settings", 2, "lr")`` as ``settings[2].lr``, always on one line."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return show(text)[1:-1]


def nearest(word: str, known: Iterable[str]) -> str:
    """``, did you mean `x`?``-like half sentence, or nothing where nothing is near."""
    found = difflib.get_close_matches(str(word)[:100], list(known), n=1)
    return f"did you mean `{found[0]}`" if found else ""


def complain(name: str, line: int | None, text: str) -> CollectionError:
    """The error to raise: ``x.yaml, line 3: text.``"""
    place = name if line is None else f"{name}, line {line}"
    return CollectionError(f"{' '.join(place.split())}: {text}.")


class Place:
    """A file that is being checked: turns a key path into a complaint with its line."""

    def __init__(self, name: str, line_of: Callable[[tuple[str | int, ...]], int | None] | None = None) -> None:
        self.name = name
        self._line_of = line_of

    def error(self, keys: tuple[str | int, ...], text: str) -> CollectionError:
        """The error to raise for what stands at ``keys``."""
        return complain(self.name, self._line_of(keys) if self._line_of and keys else None, text)

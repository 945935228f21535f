"""A mapping of a run config as the fields of a dataclass; every mistake is one sentence."""

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from unbroken.errors import CollectionError

T = TypeVar("T")


def at_least(name: str, value: float, least: float) -> None:
    """Raises CollectionError where ``value`` is smaller."""
    if value < least:
        raise CollectionError(f"{name} is {value!r}; it must be at least {least:g}")


def within(name: str, value: float, low: float, high: float) -> None:
    """Raises CollectionError where ``value`` is not in [low, high]."""
    if not low <= value <= high:
        raise CollectionError(f"{name} is {value!r}; it must be between {low:g} and {high:g}")


def from_mapping(kind: type[T], given: Mapping[str, Any], prefix: str = "", others: frozenset[str] = frozenset()) -> T:
    """An instance of the dataclass ``kind`` (fields int, float, str, bool) from the keys of ``given``.

    Args:
        prefix: of the keys in a message, e.g. ``data.``.
        others: keys that somebody else reads.

    Raises:
        CollectionError: an unknown key, or a value of another type.
    """
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in fields:
            values[key] = _as(fields[key].type, f"{prefix}{key}", value)
        elif key not in others:
            known = sorted({*fields, *others})
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"there are {', '.join(fields)}"
            raise CollectionError(f"{prefix}{key} is not a key that this trainer knows; {hint}")
    return kind(**values)


def _as(wanted: Any, name: str, value: Any) -> Any:
    if wanted is bool or isinstance(value, bool):
        if wanted is bool and isinstance(value, bool):
            return value
    elif wanted is float and isinstance(value, int | float):
        return float(value)
    elif wanted is int and (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        return int(value)
    elif wanted is str and isinstance(value, str):
        return value
    kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    raise CollectionError(f"{name} is {value!r}; write {kinds[wanted]}")

"""Nested configs: dotted keys, deep merge, look-up. Nothing is changed in place, so settings can share their parts."""

from collections.abc import Iterator, Mapping
from typing import Any

from unbroken.collection._sentence import Place, dotted, show
from unbroken.collection.identity import ABSENT

Keys = tuple[str, ...]


def split_key(key: str, place: Place, at: tuple[str | int, ...]) -> Keys:
    """``optim.lr`` as ("optim", "lr")."""
    parts = tuple(key.split("."))
    if not all(part.strip() for part in parts):
        raise place.error(at, f"`{dotted(at)}` has an empty part in its key; write a name on both sides of each dot")
    return parts


def nest(flat: Mapping[str, Any], place: Place, at: tuple[str | int, ...]) -> dict[str, Any]:
    """``{"optim.lr": 1}`` as ``{"optim": {"lr": 1}}``; only the first level's keys are split."""
    result: dict[str, Any] = {}
    for key, value in flat.items():
        parts = split_key(key, place, (*at, key))
        inner = result
        for part in parts[:-1]:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise place.error(
                    (*at, key), f"`{dotted((*at, key))}` reaches into {show(inner)}; write one of the two"
                )
        last = parts[-1]
        if last in inner and not (isinstance(inner[last], dict) and isinstance(value, dict)):
            raise place.error((*at, key), f"`{dotted((*at, key))}` is given twice; remove one")
        inner[last] = (
            merge(inner[last], value) if last in inner else merge({}, value) if isinstance(value, dict) else value
        )
    return result


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``over`` on top: mappings are merged, everything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merge(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return result


def get(config: Mapping[str, Any], keys: Keys) -> Any:
    """The value at ``keys``, or ABSENT."""
    value: Any = config
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return ABSENT
        value = value[key]
    return value


def leaf_keys(config: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Key path and value of everything that is no mapping (an empty one counts as a value)."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from leaf_keys(value, (*above, key))
        else:
            yield (*above, key), value

"""What makes a run that run: its sanitized config, and the hash that names it.

Only the standard library is imported here: the launcher and the trainers use it on every start.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from unbroken.collection.operational import OPERATIONAL_KEYS

if TYPE_CHECKING:
    from unbroken.collection.model import Run

SCHEMA_VERSION = 1
"""Of config_identity.json; a change of the canonical form below needs a new one."""

ID_LENGTH = 12
"""Hex digits of the hash in a directory name; two settings that share them are refused."""

NOT_IDENTITY: frozenset[str] = OPERATIONAL_KEYS | {"seed", "collection", "description"}


class Absent:
    """Stands in a difference for a key that one side does not have."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Final = Absent()

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is not text")
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, bool | int | float | str):  # subclasses, e.g. numpy.float64
        return _canonical(next(t for t in (bool, int, float, str) if isinstance(value, t))(value))
    raise ValueError(f"{type(value).__name__} is not a value of YAML")


def canonical_json(value: Any) -> str:
    """One text for equal values: sorted keys, no spaces, ASCII, 1.0 as 1 (true is not 1), -0.0 as 0.

    Raises ValueError for NaN, infinity, keys that are not text, and types that YAML does not have.
    """
    return _encode(_canonical(value))


def config_hash(sanitized: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON, as 64 hex digits."""
    return hashlib.sha256(canonical_json(sanitized).encode("ascii")).hexdigest()


def setting_id(full_hash: str) -> str:
    """The directory name of a setting."""
    return full_hash[:ID_LENGTH]


def sanitize(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a run config that define the experiment."""
    return {key: value for key, value in config.items() if key not in NOT_IDENTITY}


def same(one: Any, other: Any) -> bool:
    """Equal as the identity sees it: 1 is 1.0, true is not 1."""
    return canonical_json(one) == canonical_json(other)


def leaves(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything that is no mapping (an empty mapping counts as a value)."""
    for key, value in config.items():
        name = f'{above}"{key}"' if "." in key else f"{above}{key}"
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Where two configs differ: (dotted key, old value, new value), sorted, with ABSENT where there is none."""
    before, after = dict(leaves(old)), dict(leaves(new))
    rows = [(key, before.get(key, ABSENT), after.get(key, ABSENT)) for key in sorted({**before, **after})]
    return [row for row in rows if isinstance(row[1], Absent) or isinstance(row[2], Absent) or not same(row[1], row[2])]


def identity_document(run: "Run") -> dict[str, Any]:
    """The content of config_identity.json."""
    return {
        "schema_version": SCHEMA_VERSION,
        "config_hash": run.point.config_hash,
        "collection": run.collection,
        "seed": run.seed,
        "trainer": run.of.trainer or "command",
        "config": run.point.config,
    }

"""A run config as what a built-in trainer obeys; a key that nobody reads is a mistake, not a silent default."""

from collections.abc import Mapping
from typing import Any, TypeVar

from unbroken.collection.operational import OPERATIONAL_KEYS
from unbroken.data.settings import from_mapping
from unbroken.errors import CollectionError
from unbroken.training.loop import Settings

T = TypeVar("T")
D = TypeVar("D")

_FRAME = frozenset(["trainer", "processes", "data", "seed", "collection", "description", "threads", "device"])


def read_config(
    config: Mapping[str, Any], kind: type[T], data_kind: type[D], further: frozenset[str] = frozenset()
) -> tuple[T, D, Settings]:
    """(the trainer's own keys, the parameters of its data, the keys of the loop).

    Args:
        config: the run config, all keys.
        kind, data_kind: dataclasses whose fields name the keys, at the top level and under ``data:``.
        further: keys that the trainer reads by itself.

    Raises:
        CollectionError: an unknown key, or a value of the wrong kind.
    """
    data = config.get("data") or {}
    if not isinstance(data, Mapping):
        raise CollectionError(f"data is {data!r}; write a mapping, e.g. data: {{records: 1024}}")
    others = _FRAME | OPERATIONAL_KEYS | frozenset(Settings.__dataclass_fields__) | further
    return from_mapping(kind, config, others=others), from_mapping(data_kind, data, "data."), Settings.of(config)

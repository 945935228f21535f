"""From grid, zip, settings, table and exclude to the collection's settings."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from unbroken.collection import identity
from unbroken.collection._sentence import Place, dotted, nearest, show
from unbroken.collection.model import Setting
from unbroken.collection.naming import Config, Point, name_settings
from unbroken.collection.nested import Keys, get, leaf_keys, merge, nest, split_key
from unbroken.collection.operational import OPERATIONAL_KEYS
from unbroken.collection.table import read_table

MAX_SETTINGS = 1_000_000
"""More is taken as an accident of a product."""

RESERVED_KEYS = {
    "trainer": "at the top level of the file, one collection a trainer",
    "command": "at the top level of the file, one collection a command",
    "processes": "at the top level of the file",
    "seed": "as `seeds:` at the top level of the file",
    "seeds": "at the top level of the file",
    "data": "at the top level of the file",
    "description": "at the top level of the file",
    "operational": "at the top level of the file",
    "collection": "nowhere: it is the name of the file",
}
"""Keys of a run config that no experiment key may take, and where they are given."""


def expand(base: Config, data: Mapping[str, Any], folder: Path, place: Place) -> tuple[Setting, ...]:
    """The settings of a collection; ``base`` is the sanitized config they share, ``data`` the checked file."""
    axes = _axes(base, data, place)
    fragments = [fragment for axis in axes for fragment in axis]
    points: list[Point] = []
    if axes:
        origin = " and ".join(f"`{block}`" for block in ("grid", "zip") if block in data)
        points = [Point(config, origin, ()) for config in _product(base, axes, place)]
    for index, setting in enumerate(data.get("settings", ())):
        at = ("settings", index)
        fragments.append(_fragment(base, setting, place, at))
        points.append(Point(merge(base, fragments[-1]), f"`{dotted(at)}`", at))
    if "table" in data:
        for line, row, table in _rows(folder, data["table"], place):
            fragments.append(_fragment(base, row, Place(f"{table}, line {line}"), ()))
            points.append(Point(merge(base, fragments[-1]), f"line {line} of {table.name}", ("table",)))
    points = points or [Point(base, "`config`", ())]
    if "exclude" in data:
        points = _exclude(points, data["exclude"], place)
    varied = {keys for fragment in fragments for keys, _ in leaf_keys(fragment)}
    return name_settings(points, sorted(varied), place)


def _rows(folder: Path, name: str, place: Place) -> Iterator[tuple[int, Config, Path]]:
    table = folder / name
    if not os.path.isfile(table):  # unlike Path.is_file, false for every name that cannot exist
        text = f"`table` is {show(name)}, but there is no such file in {folder}; mend the path"
        raise place.error(("table",), text)
    for line, row in read_table(table):
        yield line, row, table


def check_keys(keys: Iterable[str], place: Place, at: tuple[str | int, ...]) -> None:
    """Refuse operational and reserved keys in a place that makes settings."""
    for key in keys:
        first = key.split(".")[0]
        name = f"`{dotted((*at, key))}`"
        if first in OPERATIONAL_KEYS:
            home = "`resources:`" if first == "resources" else "`operational:`"
            text = f"{name} is an operational key, which never makes a different setting; move it to {home}"
            raise place.error((*at, key), text)
        if first in RESERVED_KEYS and not (first == "data" and at != ("config",)):
            raise place.error((*at, key), f"{name} is a reserved key; give it {RESERVED_KEYS[first]}")


def _fragment(base: Config, point: Mapping[str, Any], place: Place, at: tuple[str | int, ...]) -> Config:
    check_keys(point, place, at)
    for key in point:
        _reachable(base, key, place, (*at, key))
    fragment = nest(point, place, at)
    if not isinstance(fragment.get("data", {}), dict):
        text = f"`{dotted((*at, 'data'))}` is {show(point['data'])}; write a mapping, or address one key as `data.key`"
        raise place.error((*at, "data"), text)
    return fragment


def _reachable(base: Config, key: str, place: Place, at: tuple[str | int, ...]) -> None:
    parts = split_key(key, place, at)
    for length in range(1, len(parts)):
        value = get(base, parts[:length])
        if value is None or value is identity.ABSENT:
            return
        if not isinstance(value, dict):
            over = ".".join(parts[:length])
            text = f"`{dotted(at)}` reaches into `{over}`, which is {show(value)} in `config:`; make that a mapping"
            raise place.error(at, text)


def _axes(base: Config, data: Mapping[str, Any], place: Place) -> list[list[Config]]:
    """One list of fragments for each grid key, and one for all of zip."""
    taken: dict[Keys, str] = {}
    axes: list[list[Config]] = []
    for block in ("grid", "zip"):
        fragments: dict[str, list[Config]] = {}
        for key, values in data.get(block, {}).items():
            at = (block, key)
            parts = split_key(key, place, at)
            for other, other_name in taken.items():
                shorter = min(len(other), len(parts))
                if other[:shorter] == parts[:shorter]:
                    raise place.error(at, f"`{dotted(at)}` and `{other_name}` set the same key; keep one")
            taken[parts] = dotted(at)
            fragments[key] = [_fragment(base, {key: value}, place, (block,)) for value in values]
            if block == "grid":
                _no_repeat(values, place, at)
        if block == "grid":
            axes.extend(fragments.values())
        elif fragments:
            axes.append(_walk_together(data["zip"], fragments, place))
    return axes


def _no_repeat(values: list[Any], place: Place, at: tuple[str, str]) -> None:
    known: set[str] = set()
    for index, value in enumerate(values):
        text = identity.canonical_json(value)
        if text in known:
            raise place.error((*at, index), f"`{dotted(at)}` lists {show(value)} twice; remove one")
        known.add(text)


def _walk_together(zipped: Mapping[str, list[Any]], fragments: dict[str, list[Config]], place: Place) -> list[Config]:
    first = next(iter(zipped))
    for key, values in zipped.items():
        if len(values) != len(zipped[first]):
            name, other = dotted(("zip", key)), dotted(("zip", first))
            text = f"has {len(values)} values, but `{other}` has {len(zipped[first])}; make them equally long"
            raise place.error(("zip", key), f"`{name}` {text}")
    rows = zip(*fragments.values(), strict=True)
    return [_merge_all(row) for row in rows]


def _merge_all(fragments: Iterable[Config]) -> Config:
    result: Config = {}
    for fragment in fragments:
        result = merge(result, fragment)
    return result


def _product(base: Config, axes: list[list[Config]], place: Place) -> list[Config]:
    size = math.prod(len(axis) for axis in axes)
    if size > MAX_SETTINGS:
        raise place.error(
            ("grid",), f"`grid` makes {size} settings, over the {MAX_SETTINGS} allowed; shorten its lists"
        )
    configs = [base]
    for axis in axes:
        configs = [merge(config, fragment) for config in configs for fragment in axis]
    return configs


def _exclude(points: list[Point], excludes: list[Config], place: Place) -> list[Point]:
    dropped: set[int] = set()
    for index, exclude in enumerate(excludes):
        at = ("exclude", index)
        check_keys(exclude, place, at)
        wanted = list(leaf_keys(nest(exclude, place, at)))
        found = [
            number
            for number, point in enumerate(points)
            if all(_equal(get(point.config, keys), value) for keys, value in wanted)
        ]
        if not found:
            raise place.error(at, _no_match(at, wanted, points))
        dropped.update(found)
    if len(dropped) == len(points):
        raise place.error(("exclude",), "`exclude` drops every setting; loosen it")
    return [point for number, point in enumerate(points) if number not in dropped]


def _equal(one: Any, other: Any) -> bool:
    return (
        one is not identity.ABSENT and (isinstance(one, bool) == isinstance(other, bool)) and identity.same(one, other)
    )


def _no_match(at: tuple[str, int], wanted: list[tuple[Keys, Any]], points: list[Point]) -> str:
    for keys, _ in wanted:
        if all(get(point.config, keys) is identity.ABSENT for point in points):
            known = {".".join(path) for point in points[:100] for path, _ in leaf_keys(point.config)}
            hint = nearest(".".join(keys), known) or "mend the key or remove the entry"
            return f"`{dotted(at)}` names `{dotted(keys)}`, which no setting has; {hint}"
    values = ", ".join(f"{dotted(keys)}={show(value)}" for keys, value in wanted)
    return f"`{dotted(at)}` ({values}) matches no setting; mend its values or remove the entry"

"""load_collection: a file of config/collections as a checked Collection."""

import contextlib
import gc
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unbroken.collection import identity, schema
from unbroken.collection._sentence import Place, complain, dotted, nearest, show
from unbroken.collection.command import split_command
from unbroken.collection.expand import check_keys, expand
from unbroken.collection.model import Collection
from unbroken.collection.nested import merge, nest
from unbroken.collection.operational import OPERATIONAL_KEYS, complete
from unbroken.collection.yaml_io import Document

SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")

RESERVED_SLUGS = frozenset(
    (
        "all",
        "check",
        "clean",
        "config",
        "make_manifest",
        "prepare",
        "prepare_manifest",
        "report",
        "report_collection",
        "results",
        "run",
        "runs",
        "summarise",
        "summarise_collection",
        "summarize",
        "summary",
        "train",
        "train_run",
        "validate",
        "write_report",
    )
)
"""Names of rules and folders, which a collection's target would clash with."""

MAX_SEED = 2**32 - 1
"""The largest that numpy.random.seed takes."""

MAX_SEEDS = 100_000


@contextlib.contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """Nothing here is cyclic, and each search for cycles walks all settings made so far: many took longer apiece."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_cycle_collection()
def load_collection(path: Path | str, overrides: Mapping[str, Any] | None = None) -> Collection:
    """Read, check and expand a collection file; ``overrides`` lies over the file's top-level keys.

    Raises CollectionError, one sentence that names file, line, key, value and fix.
    """
    path = Path(path)
    slug = check_slug(path)
    if not os.path.isfile(path):  # unlike Path.is_file, false for every name that cannot exist
        raise complain(str(path), None, f"does not exist; {_other_collections(path)}")
    document = Document.read(path)
    data, place = document.data, Place(str(path), document.line)
    if overrides:
        data, place = _override(data, overrides, document)
    for block in ("resources", "operational"):  # a block with all its lines commented out
        if block in data and data[block] is None:
            del data[block]
    seeds = _seeds(data["seeds"], place) if "seeds" in data else ()
    schema.check("collection", data, place)
    config, operational = _split_config(data, place)
    command = data["command"].strip() if "command" in data else None
    if command is not None:
        try:
            split_command(command)
        except ValueError as error:
            raise place.error(("command",), f"`command` {error}") from None
    processes = data.get("processes", 1)
    base = {**config, **({"trainer": data["trainer"]} if command is None else {"command": command})}
    if processes > 1:
        base["processes"] = processes
    if data.get("data"):
        base["data"] = nest(data["data"], place, ("data",))
    settings = expand(base, data, path.parent, place)
    resources = operational.pop("resources")
    return Collection(
        slug=slug,
        path=path,
        description=(data.get("description") or "").strip(),
        trainer=data.get("trainer"),
        command=command,
        processes=processes,
        seeds=seeds,
        settings=settings,
        resources=resources,
        operational=operational,
        _by_id={setting.id: setting for setting in settings},
    )


def check_slug(path: Path) -> str:
    """The slug of a collection file, its name without .yaml."""
    slug = path.stem
    if path.suffix != ".yaml":
        raise complain(str(path), None, f"ends in {show(path.suffix)}; name it <slug>.yaml")
    if not SLUG.match(slug):
        rule = "up to 64 of a-z, 0-9, _ and -, the first a letter or digit"
        raise complain(str(path), None, f"gives the slug {show(slug)}, which is not allowed; rename it to {rule}")
    if slug in RESERVED_SLUGS:
        raise complain(str(path), None, f"gives the slug {show(slug)}, which names a rule; rename the file")
    return slug


def _other_collections(path: Path) -> str:
    try:
        there = sorted(other.stem for other in path.parent.glob("*.yaml"))
    except OSError:
        there = []
    if not there:
        return f"write it, there is none in {path.parent}"
    return nearest(path.stem, there) or f"write it, or use one of {', '.join(there[:10])}"


def _override(data: dict[str, Any], overrides: Mapping[str, Any], document: Document) -> tuple[dict[str, Any], Place]:
    name = f"{document.name} with overrides"
    try:
        identity.canonical_json(overrides)
    except (ValueError, RecursionError) as error:
        raise complain(name, None, f"has a value that YAML cannot hold ({error}); mend it") from None

    def line(keys: tuple[str | int, ...]) -> int | None:
        return None if keys[0] in overrides else document.line(keys)

    return merge(data, overrides), Place(name, line)


def _seeds(value: Any, place: Place) -> tuple[int, ...]:
    """A count as 0..n-1, a list as it is."""
    fix = "write a count, e.g. 3, or a list of whole numbers, e.g. [0, 1, 2]"
    if isinstance(value, bool) or not isinstance(value, int | list):
        raise place.error(("seeds",), f"`seeds` is {show(value)}; {fix}")
    if isinstance(value, int):
        if not 1 <= value <= MAX_SEEDS:
            raise place.error(("seeds",), f"`seeds` is {value}, no count from 1 to {MAX_SEEDS}; {fix}")
        return tuple(range(value))
    if not value:
        raise place.error(("seeds",), f"`seeds` is empty; {fix}")
    known: set[int] = set()
    for index, seed in enumerate(value):
        keys = ("seeds", index)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
            text = f"`{dotted(keys)}` is {show(seed)}; write a whole number from 0 to {MAX_SEED}"
            raise place.error(keys, text)
        if seed in known:
            raise place.error(keys, f"`{dotted(keys)}` is {seed}, which stands twice; remove one")
        known.add(seed)
    return tuple(value)


def _split_config(data: Mapping[str, Any], place: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    """The experiment keys of `config:`, and the complete operational keys wherever they stand."""
    nested = nest(data.get("config") or {}, place, ("config",))
    flat = {key: nested.pop(key) for key in list(nested) if key in OPERATIONAL_KEYS}
    check_keys(nested, place, ("config",))
    schema.check("operational", flat, place, ("config",))
    given = dict(data.get("operational", {}))
    for home, block in (("config", flat), ("", {"resources": data["resources"]} if "resources" in data else {})):
        for key, value in block.items():
            if key in given:
                keys = (home, key) if home else (key,)
                raise place.error(keys, f"`{dotted(keys)}` also stands elsewhere in this file; keep one of the two")
            given[key] = value
    return nested, complete(given)

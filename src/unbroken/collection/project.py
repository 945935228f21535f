"""config/config.yaml: which collections, and where things live."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbroken.collection import identity, schema
from unbroken.collection._sentence import Place, show
from unbroken.collection.load import RESERVED_SLUGS, SLUG, load_collection
from unbroken.collection.model import Collection
from unbroken.collection.yaml_io import Document
from unbroken.errors import CollectionError

_PATTERN = re.compile(r"[{}\x00-\x1f]")
"""In a path, Snakemake would take a brace for a wildcard."""
_UNQUOTABLE = re.compile(r"['\"$`\\{}\x00-\x1f]")
"""In the project's own path: Snakemake starts some jobs through a shell, with this path in Python's quotes."""


def check_folder(folder: str) -> None:
    """Raise CollectionError where the project's folder has a character that would reach a shell unquoted."""
    found = _UNQUOTABLE.search(folder)
    if found:
        text = f"the project lies in {show(folder)}: {show(found[0])} would reach a shell; rename the folder"
        raise CollectionError(f"{text}, or move the project.")


def check_given(arguments: Iterable[str]) -> None:
    """Raise CollectionError where a value of ``--config`` would be changed, or run, on its way to the jobs."""
    for argument in arguments:
        found = re.search(r"['$`\\\x00-\x1f]", argument)
        if found:
            fix = f"{show(found[0])} would reach a shell; write it into config/config.yaml"
            raise CollectionError(f"--config {show(argument)}: {fix}.")


@dataclass(frozen=True)
class ProjectConfig:
    """The project's settings; paths are relative to the working directory."""

    collections: tuple[str, ...]
    collections_dir: Path = Path("config/collections")
    runs_dir: Path = Path("runs")
    results_dir: Path = Path("results")
    data_roots: Mapping[str, Path] = field(default_factory=dict)
    seeds: int | list[int] | None = None
    """Instead of each collection's own; a count or a list."""

    def collection_path(self, slug: str) -> Path:
        """The file of a collection."""
        return self.collections_dir / f"{slug}.yaml"

    def load(self, slug: str, overrides: Mapping[str, Any] | None = None) -> Collection:
        """The collection with this slug; raises CollectionError."""
        given = {} if self.seeds is None else {"seeds": self.seeds}
        return load_collection(self.collection_path(slug), {**given, **(overrides or {})})


def load_config(source: Path | str | Mapping[str, Any]) -> ProjectConfig:
    """Check config.yaml, given as a path or as the mapping that Snakemake made of it; raises CollectionError."""
    if isinstance(source, Mapping):
        data, place = dict(source), Place("config")
        if isinstance(data.get("seeds"), list):  # from the shell: Snakemake leaves the numbers in a list as text
            data["seeds"] = [_number(seed) for seed in data["seeds"]]
        try:
            identity.canonical_json(data)
        except (ValueError, RecursionError) as error:
            raise place.error((), f"has a value that YAML cannot hold ({error}); mend it") from None
    else:
        document = Document.read(Path(source))
        data, place = document.data, Place(str(source), document.line)
    schema.check("config", data, place)
    for index, slug in enumerate(data["collections"]):
        if not SLUG.match(slug):  # the schema's `$` lets a newline at the end pass
            raise place.error(
                ("collections", index), f"`collections[{index}]` is {show(slug)}, which is no slug; mend it"
            )
        if slug in RESERVED_SLUGS:
            keys = ("collections", index)
            raise place.error(
                keys, f"`collections[{index}]` is {show(slug)}, which names a rule; rename the collection"
            )
    for key in ("collections_dir", "runs_dir", "results_dir"):
        if _PATTERN.search(data.get(key, "")):
            raise place.error(
                (key,), f"`{key}` is {show(data[key])}; take a folder without braces and control characters"
            )
    folders = {
        key: Path(data[key]).expanduser() for key in ("collections_dir", "runs_dir", "results_dir") if key in data
    }
    roots = {name: Path(folder).expanduser() for name, folder in (data.get("data_roots") or {}).items()}
    return ProjectConfig(collections=tuple(data["collections"]), data_roots=roots, seeds=data.get("seeds"), **folders)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value

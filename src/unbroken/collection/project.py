"""config/config.yaml: which collections, and where things live."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbroken.collection import identity, schema
from unbroken.collection._sentence import Place, show
from unbroken.collection.load import RESERVED_SLUGS, load_collection
from unbroken.collection.model import Collection
from unbroken.collection.yaml_io import Document


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
        if slug in RESERVED_SLUGS:
            keys = ("collections", index)
            raise place.error(
                keys, f"`collections[{index}]` is {show(slug)}, which names a rule; rename the collection"
            )
    folders = {
        key: Path(data[key]).expanduser() for key in ("collections_dir", "runs_dir", "results_dir") if key in data
    }
    roots = {name: Path(folder).expanduser() for name, folder in (data.get("data_roots") or {}).items()}
    return ProjectConfig(collections=tuple(data["collections"]), data_roots=roots, seeds=data.get("seeds"), **folders)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value

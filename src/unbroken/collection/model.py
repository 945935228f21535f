"""A collection as objects: Collection, its settings, and their runs."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbroken.collection import identity
from unbroken.collection.command import builtin_command, split_command
from unbroken.collection.run_dir import RunPaths

SPEC_VERSION = 1
"""Of the launch spec that the workflow hands to the launcher."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of the collection: the experiment's configuration without the seed."""

    id: str
    config_hash: str
    config: Mapping[str, Any]
    """The sanitized config; shared between settings, so treat it as read-only."""
    label: str
    """The keys that vary within the collection, e.g. ``hidden=32 lr=0.01``; for people, never a path."""


@dataclass(frozen=True)
class Collection:
    """A named set of runs, as its file says."""

    slug: str
    path: Path
    description: str
    trainer: str | None
    command: str | None
    processes: int
    seeds: tuple[int, ...]
    settings: tuple[Setting, ...] = field(repr=False)
    resources: Mapping[str, Any]
    operational: Mapping[str, Any]
    """Every operational key but ``resources``, defaults filled in."""
    _by_id: Mapping[str, Setting] = field(repr=False, compare=False)

    def __len__(self) -> int:
        """How many runs."""
        return len(self.settings) * len(self.seeds)

    def runs(self) -> Iterator["Run"]:
        """Every setting with every seed, in the order of the file."""
        for point in self.settings:
            for seed in self.seeds:
                yield Run(self, point, seed)

    def setting(self, setting_id: str) -> Setting:
        """The setting with this id; raises KeyError."""
        return self._by_id[setting_id]

    def run(self, setting_id: str, seed: int) -> "Run":
        """One run by what stands in its path; raises KeyError."""
        if seed not in self.seeds:
            raise KeyError(seed)
        return Run(self, self._by_id[setting_id], seed)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Run:
    """One setting with one seed; it owns one run directory."""

    of: Collection
    point: Setting
    seed: int

    @property
    def collection(self) -> str:
        """The collection's slug."""
        return self.of.slug

    @property
    def setting(self) -> str:
        """The setting's id, the name of its directory."""
        return self.point.id

    @property
    def label(self) -> str:
        return self.point.label

    def __repr__(self) -> str:
        return f"Run({self.of.slug}/{self.point.id}/seed_{self.seed})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, str, int]:
        return self.of.slug, self.point.config_hash, self.seed

    def paths(self, runs_root: Path | str) -> RunPaths:
        """Where everything of this run lies."""
        return RunPaths.of(runs_root, self.of.slug, self.point.id, self.seed)

    def run_config(self) -> dict[str, Any]:
        """All keys, a copy of its own: the experiment, the seed, the collection, the operational keys."""
        return copy.deepcopy(
            {
                **self.of.operational,
                **self.point.config,
                "resources": dict(self.of.resources),
                "seed": self.seed,
                "collection": self.of.slug,
            }
        )

    def launch_spec(self) -> dict[str, Any]:
        """Everything the launcher needs, as JSON can hold it, so that it need not read the collection."""
        from unbroken.collection.yaml_io import dump_yaml

        return {
            "schema_version": SPEC_VERSION,
            "collection": self.of.slug,
            "setting": self.point.id,
            "seed": self.seed,
            "label": self.point.label,
            "config_hash": self.point.config_hash,
            "identity": identity.identity_document(self),
            "config_yaml": dump_yaml(self.run_config()),
            "command": builtin_command(self.of.trainer) if self.of.trainer else split_command(self.of.command or ""),
            "processes": self.of.processes,
            "operational": dict(self.of.operational),
            "resources": dict(self.of.resources),
        }

"""From the environment or the arguments to an open run directory: everything before the first tensor."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unbroken.collection.operational import DEFAULTS, parse_flag
from unbroken.collection.run_dir import RunPaths
from unbroken.collection.yaml_io import Document, dump_yaml
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.files import free_path, write_atomic, write_json
from unbroken.training.async_store import AsyncStore
from unbroken.training.checkpoint import CheckpointStore
from unbroken.training.distributed import World
from unbroken.training.guard import Identity
from unbroken.training.progress import say
from unbroken.training.records import Records
from unbroken.training.resume import Discovery, check_environment, discover
from unbroken.training.retention import Retention
from unbroken.training.state import environment


@dataclass(frozen=True)
class PathsWithCheckpoints(RunPaths):
    """A run directory whose checkpoints lie elsewhere (``--ckpt-dir``)."""

    elsewhere: Path

    @property
    def checkpoints(self) -> Path:
        return self.elsewhere


@dataclass(frozen=True)
class Request:
    """What is to be trained, and how."""

    paths: RunPaths
    config: dict[str, Any]
    """The run config, all keys."""
    seed: int
    operational: dict[str, Any]

    @classmethod
    def of(
        cls,
        run_dir: Path | str | None = None,
        config: Path | str | Mapping[str, Any] | None = None,
        seed: int | None = None,
        ckpt_dir: Path | str | None = None,
        **operational: Any,
    ) -> "Request":
        """Arguments first, then UNBROKEN_RUN_DIR, UNBROKEN_CONFIG, UNBROKEN_SEED, then the config's own ``seed``.

        Args:
            operational: operational keys that win over the config's; None is not given.

        Raises:
            RunDirectoryError: no run directory is named.
            CollectionError: the config cannot be read.
        """
        where = run_dir or os.environ.get("UNBROKEN_RUN_DIR")
        if not where:
            raise RunDirectoryError("no run directory: give --run-dir, or set UNBROKEN_RUN_DIR as the launcher does")
        root = Path(os.path.abspath(where))
        paths = RunPaths(root) if ckpt_dir is None else PathsWithCheckpoints(root, Path(os.path.abspath(ckpt_dir)))
        source = config if config is not None else os.environ.get("UNBROKEN_CONFIG") or paths.config
        values = dict(source) if isinstance(source, Mapping) else Document.read(Path(source)).data
        chosen = seed if seed is not None else os.environ.get("UNBROKEN_SEED", values.get("seed", 0))
        try:
            number = int(chosen)
        except (TypeError, ValueError):
            raise RunDirectoryError(f"the seed is {chosen!r}; give a whole number") from None
        given = {key: values[key] for key in DEFAULTS if key in values}
        given |= {key: value for key, value in operational.items() if value is not None}
        return cls(paths, {**values, "seed": number}, number, {**DEFAULTS, **given})

    def flag(self, key: str) -> bool:
        """An operational switch; "false", "no" and 0 are false."""
        return parse_flag(self.operational[key])

    def count(self, key: str) -> int:
        """An operational number."""
        value = self.operational[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise RunDirectoryError(f"{key} is {value!r} in {self.paths.config}; give a whole number of at least 0")
        return value


@dataclass(frozen=True)
class Opened:
    """A run directory that the guard has agreed to."""

    request: Request
    identity: Identity
    store: CheckpointStore
    world: World
    discovery: Discovery
    records: Records
    finished: bool


def look(request: Request, trainer: str | None, resume_from: Path | None) -> Opened:
    """Join the other ranks, let rank 0 look and decide, and write only what the guard allows.

    Raises:
        IdentityMismatch, CheckpointError, LeaseHeld: see ``resume.discover``; nothing was written.
    """
    identity = Identity.of(request.config, request.seed, trainer or str(request.config.get("trainer", "command")))
    keep = Retention(*(request.count(key) for key in ("keep_last", "keep_every", "keep_best")))
    store = (AsyncStore if request.flag("async_saves") else CheckpointStore)(request.paths, keep)
    world = World.join()
    records = Records.of(request.paths, silent=not world.first)
    found = world.decide(lambda: discover(request.paths, store, identity, request.flag("auto_resume"), resume_from))
    saved = found.found.payload if found.found is not None else None
    here = environment(device(request.config), world.size)
    check_environment(request.paths, saved, here, "", request.flag("allow_world_size_change"))
    finished = found.identity_there and world.decide(request.paths.result.exists)
    if not finished:
        world.decide(lambda: prepare(request, identity, store, found, records))
    return Opened(request, identity, store, world, found, records, finished)


def device(config: Mapping[str, Any]) -> torch.device:
    """This process's GPU, or the CPU where there is none or the config says ``device: cpu``."""
    if torch.cuda.is_available() and config.get("device", "auto") != "cpu":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def prepare(
    request: Request, identity: Identity, store: CheckpointStore, discovery: Discovery, records: Records
) -> None:
    """Write what opening a run directory writes: after the guard has agreed, by rank 0 only.

    Raises:
        OSError: the disk does not take it.
    """
    paths = request.paths
    records.acquire()
    if not discovery.identity_there:
        write_json(paths.identity, identity.document())
    if not paths.config.exists():
        write_atomic(paths.config, dump_yaml(request.config))
    if discovery.adopted and discovery.found is not None:
        records.event("legacy_adopted", checkpoint=discovery.found.path.name, config_hash=identity.config_hash)
        say(f"adopted {paths.root}: the config in {discovery.found.path.name} is the one asked for")
    if discovery.found is not None and discovery.found.path.parent == store.folder:
        for old, new, why in store.settle(discovery.found):
            records.event("checkpoint_rejected", file=old.name, kept_as=new.name, reason=why)
            say(f"{old.name} {why}: kept as {new.name}; going on from {discovery.found.path.name}")
    elif discovery.found is None and store.exists():
        aside = free_path(lambda number: store.folder.with_name(f"{store.folder.name}.before-{number}"))
        os.replace(store.folder, aside)
        say(f"auto-resume is off: the old checkpoints are in {aside.name}, training starts from the beginning")
    records.started()

"""What is drilled: one run of a collection as a launch spec of its own, for scratch directories only."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unbroken.collection._sentence import Place
from unbroken.collection.expand import RESERVED_KEYS
from unbroken.collection.identity import config_hash, setting_id
from unbroken.collection.model import Run
from unbroken.collection.nested import leaf_keys, merge, nest
from unbroken.collection.operational import OPERATIONAL_KEYS
from unbroken.collection.yaml_io import Document
from unbroken.errors import UnbrokenError

SCRATCH_OPERATIONAL: Mapping[str, Any] = {
    "enable_graceful_shutdown": True,
    "auto_resume": True,
    "early_preemption_limit": None,
    "job_code_snapshot_enabled": False,
    "log_every": 1,
    "max_resubmit_attempts": None,
    "no_progress_limit": None,
    "profiling": {},
    "requeue": False,
    "tracking": {},
}
"""What holds in the scratch copies whatever the collection says: no limit, no tracker, a row for every step."""


@dataclass(frozen=True)
class Subject:
    """One run, ready to be launched anywhere."""

    name: str
    label: str
    trainer: str | None
    """Built-in trainer; None for a command of the user's."""
    spec: dict[str, Any]
    folder: Path
    """Where the trainer is started: the project."""

    @property
    def builtin(self) -> bool:
        return self.trainer is not None

    def environment(self) -> dict[str, str]:
        """The caller's, without what an outer launcher, Snakemake or Slurm job has left in it."""
        outer = ("UNBROKEN_", "SLURM_", "SLURMD_", "SRUN_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(outer)}
        for name in ("UNBROKEN_CAMELS_ROOT", "UNBROKEN_DATA_ROOTS"):
            if name in os.environ:
                kept[name] = os.environ[name]
        return {**kept, "WANDB_MODE": "disabled", "UNBROKEN_DRILL": "1"}


def make_subject(run: Run, changes: Iterable[str] = (), folder: Path | None = None) -> Subject:
    """The run with ``changes`` (``key=value``, dotted keys, YAML values) to its experiment and operational keys.

    Raises:
        UnbrokenError: a change cannot be read, or names a key that a scratch copy may not change.
    """
    experiment, operational = _split(changes)
    config = merge(run.point.config, experiment)
    full_hash = config_hash(config)
    point = replace(run.point, id=setting_id(full_hash), config_hash=full_hash, config=config)
    keys = {**run.of.operational, **SCRATCH_OPERATIONAL, **operational}
    changed = Run(replace(run.of, operational=keys), point, run.seed)
    told = " ".join(f"{'.'.join(path)}={value}" for path, value in leaf_keys({**experiment, **operational}))
    name = f"{run.collection}/{run.setting}/{run.seed}"
    label = " with ".join(text for text in (run.label, told) if text)
    return Subject(name, label, run.of.trainer, changed.launch_spec(), (folder or Path()).resolve())


def _split(changes: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    flat: dict[str, Any] = {}
    for text in changes:
        key, equals, value = text.partition("=")
        key = key.strip()
        first = key.split(".")[0]
        if not equals or not key:
            raise UnbrokenError(f"--set {text}: write key=value, e.g. --set epochs=1")
        if first == "resources" or (first in RESERVED_KEYS and first != "data"):
            raise UnbrokenError(f"--set {text}: a drill changes keys of `config:`, `data:` and `operational:` alone")
        flat[key] = Document("--set", f"value: {value}").data["value"]
    nested = nest(flat, Place("--set"), ())
    operational = {key: nested.pop(key) for key in list(nested) if key in OPERATIONAL_KEYS}
    return nested, operational

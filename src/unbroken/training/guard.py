"""Does this run directory belong to this run? Asked before anything is written; looks nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unbroken.collection.identity import SCHEMA_VERSION, config_hash, diff, sanitize
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import IdentityMismatch, RunDirectoryError
from unbroken.run_dir.files import read_json

Row = tuple[str, Any, Any]
"""(dotted key, old value, new value)."""

WAYS_OUT = (
    "Nothing of it was changed. Ways out: restore the old values; or train the new setting in another run directory "
    "(another --run-dir, or another collection slug); or move this directory away to train from the beginning."
)


@dataclass(frozen=True)
class Identity:
    """What makes a run that run."""

    config: dict[str, Any]
    """Sanitized."""
    config_hash: str
    seed: int
    trainer: str
    collection: str | None

    @classmethod
    def of(cls, config: Mapping[str, Any], seed: int, trainer: str) -> "Identity":
        """From a run config with all its keys."""
        clean = sanitize(config)
        collection = config.get("collection")
        return cls(clean, config_hash(clean), seed, trainer, collection if isinstance(collection, str) else None)

    def document(self) -> dict[str, Any]:
        """The content of config_identity.json."""
        return {
            "schema_version": SCHEMA_VERSION,
            "config_hash": self.config_hash,
            "collection": self.collection,
            "seed": self.seed,
            "trainer": self.trainer,
            "config": self.config,
        }


def mismatch(paths: RunPaths, evidence: str, rows: list[Row]) -> IdentityMismatch:
    """The refusal, with every key that differs as ``old -> new``."""
    lines = "\n".join(f"  {key}: {_show(old)} -> {_show(new)}" for key, old, new in rows)
    return IdentityMismatch(
        f"{paths.root} belongs to another run, as {evidence} says (its value -> the value asked for):\n"
        f"{lines}\n{WAYS_OUT}"
    )


def _show(value: Any) -> str:
    return repr(value) if not isinstance(value, str) else f'"{value}"'


def check_directory(paths: RunPaths, wanted: Identity) -> bool:
    """Whether config_identity.json is there; it then agrees with ``wanted``. Writes nothing.

    Raises:
        IdentityMismatch: it does not agree.
        RunDirectoryError: the file is not what it should be.
    """
    there = read_json(paths.identity)
    if there is None:
        return False
    if not isinstance(there, dict) or not isinstance(there.get("config_hash"), str):
        raise RunDirectoryError(f"{paths.identity} is not an identity: move it away to have it made again from last.pt")
    old = there.get("config")
    compare(paths, paths.identity.name, there["config_hash"], old if isinstance(old, dict) else {}, there, wanted)
    return True


def check_payload(paths: RunPaths, name: str, payload: Mapping[str, Any], wanted: Identity) -> None:
    """Refuse a checkpoint of another setting or seed. The config it holds is the evidence, not the hash it claims.

    Raises:
        IdentityMismatch: another setting; or no config_snapshot, so that nobody can tell.
    """
    snapshot = payload.get("config_snapshot")
    if not isinstance(snapshot, Mapping):
        raise IdentityMismatch(
            f"{paths.root}: {name} holds no config_snapshot, so nobody can tell which setting it belongs to. {WAYS_OUT}"
        )
    clean = sanitize(snapshot)
    facts = {"seed": payload.get("seed", snapshot.get("seed"))}
    compare(paths, f"the config_snapshot in {name}", config_hash(clean), clean, facts, wanted)


def compare(
    paths: RunPaths, evidence: str, old_hash: str, old: Mapping[str, Any], facts: Mapping[str, Any], wanted: Identity
) -> None:
    """Raise IdentityMismatch unless hash and seed (where it is known) are the wanted ones."""
    rows: list[Row] = []
    if old_hash != wanted.config_hash:
        rows += diff(old, wanted.config) or [("config_hash", old_hash, wanted.config_hash)]
    seed = facts.get("seed")
    if seed is not None and seed != wanted.seed:
        rows.append(("seed", seed, wanted.seed))
    if rows:
        raise mismatch(paths, evidence, rows)

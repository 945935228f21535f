"""Adopt a legacy run directory by hand: the same look, the same guard and the same writing as a trainer's own start."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbroken.errors import CheckpointError, RunDirectoryError
from unbroken.run_dir import lease as leases
from unbroken.run_dir.status import read_status, update_status
from unbroken.training.checkpoint import CheckpointStore, Found
from unbroken.training.guard import Identity
from unbroken.training.opening import Request, prepare
from unbroken.training.records import Records
from unbroken.training.resume import discover
from unbroken.training.retention import Retention


@dataclass(frozen=True)
class Adoption:
    """What the directory holds, and what adopting it writes."""

    run_dir: Path
    identity: dict[str, Any]
    """The content of config_identity.json."""
    checkpoint: Path
    global_step: int
    order_mode: str
    passed_over: list[tuple[str, str]]
    """(file, why) of newer checkpoints that cannot be read; they are set aside."""
    writes_config: bool


def adopt(run_dir: Path, config: Mapping[str, Any], seed: int, check: bool = False) -> Adoption | None:
    """Make a run directory ours; None where it is already. With ``check`` only look.

    Raises:
        IdentityMismatch: its checkpoint belongs to another run; nothing was written.
        CheckpointError: there is no checkpoint, or none that can be read.
        LeaseHeld: a trainer is in it.
    """
    request = Request.of(run_dir, config, seed)
    if not request.paths.root.is_dir():
        raise RunDirectoryError(f"{request.paths.root} does not exist: put the old run's directory there")
    identity = Identity.of(request.config, seed, str(request.config.get("trainer", "command")))
    keep = Retention(*(request.count(key) for key in ("keep_last", "keep_every", "keep_best")))
    store = CheckpointStore(request.paths, keep)
    discovery = discover(request.paths, store, identity)
    if discovery.identity_there:
        return None
    found = discovery.found
    if found is None:
        raise CheckpointError(f"{store.folder} holds no checkpoint: there is nothing to adopt; a new run needs nothing")
    adoption = _describe(request, identity, found)
    if not check:
        lease = leases.acquire(request.paths)
        try:
            records = Records(request.paths, read_status(request.paths).attempt, launched=True)
            prepare(request, identity, store, discovery, records)
            update_status(request.paths, status="pending", reason="adopted by hand", global_step=adoption.global_step)
        finally:
            lease.release()
    return adoption


def _describe(request: Request, identity: Identity, found: Found) -> Adoption:
    return Adoption(
        request.paths.root,
        identity.document(),
        found.path,
        int(found.payload["position"]["global_step"]),
        str(found.payload.get("order", {}).get("mode")),
        [(path.name, why) for path, why in found.passed_over],
        not request.paths.config.exists(),
    )

"""From a run directory to the place where its training goes on; ``resume_if_requested`` alone restores state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import CheckpointError, IdentityMismatch
from unbroken.training import guard, legacy, rng
from unbroken.training.checkpoint import CheckpointStore, Found
from unbroken.training.order import EPOCH_SEEDED, LEGACY, OrderMode
from unbroken.training.parts import Parts, Stateful
from unbroken.training.position import Plan
from unbroken.training.reading import Unreadable, read_payload, read_sidecars


@dataclass(frozen=True)
class Discovery:
    """What the run directory offers."""

    found: Found | None = None
    """The checkpoint to go on from, in our names; None for a fresh run."""
    identity_there: bool = False
    adopted: bool = False
    """last.pt is there without config_identity.json, and its config is the one asked for."""


def discover(
    paths: RunPaths,
    store: CheckpointStore,
    wanted: guard.Identity,
    auto_resume: bool = True,
    resume_from: Path | None = None,
) -> Discovery:
    """Look into this run directory, no other, and at nothing it does not name. Writes nothing.

    Raises:
        IdentityMismatch: the directory or its checkpoint belongs to another run.
        CheckpointError: there are checkpoints and none can be read, or ``resume_from`` cannot.
    """
    there = guard.check_directory(paths, wanted)
    found = _explicit(resume_from) if resume_from is not None else store.find() if auto_resume else None
    if found is None:
        return Discovery(None, there)
    guard.check_payload(paths, found.path.name, found.payload, wanted)
    if legacy.is_legacy(found.payload):
        found = replace(found, payload=legacy.translate(found.payload))
    return Discovery(found, there, adopted=not there and resume_from is None)


def _explicit(path: Path) -> Found:
    if not path.is_file():
        raise CheckpointError(
            f"--resume-from {path}: there is no such file; leave the option out to start or to auto-resume"
        )
    try:
        payload, sidecar = read_payload(path, read_sidecars(path.parent))
    except Unreadable as why:
        raise CheckpointError(
            f"--resume-from {path}: the file {why}; give another one, or leave it out to auto-resume"
        ) from why
    return Found(payload, path, sidecar)


@dataclass(frozen=True)
class Resumed:
    """Where training starts."""

    global_step: int = 0
    start_epoch: int = 0
    resume_batch_idx: int = 0
    """Effective batches of ``start_epoch`` that are committed already."""
    order_mode: OrderMode = EPOCH_SEEDED
    sampler_seed: int | None = None
    """Of ``start_epoch``, in the legacy order mode, where the checkpoint says it."""
    evaluated_step: int = 0
    """The last step with a finished evaluation."""
    evaluation: Mapping[str, Any] | None = None
    """Its values."""
    pending_row: Mapping[str, Any] | None = None
    """The row of metrics.csv that waits for the evaluation of ``global_step``."""
    metrics_bytes: int | None = None
    """How long metrics.csv was; None for a legacy checkpoint."""
    inexact: tuple[str, ...] = ()
    """Why the continued run may differ in its last bits; empty when it cannot."""

    def position(self) -> dict[str, int | str]:
        """For the event and the log."""
        return {
            "global_step": self.global_step,
            "start_epoch": self.start_epoch,
            "resume_batch_idx": self.resume_batch_idx,
            "train_order_mode": self.order_mode,
        }

    def line(self) -> str:
        """The log line that a person looks for."""
        return "resumed from checkpoint: " + " ".join(f"{key}={value}" for key, value in self.position().items())


def check_environment(
    paths: RunPaths,
    payload: Mapping[str, Any] | None,
    here: Mapping[str, Any],
    fingerprint: str,
    allow_world_size_change: bool,
) -> tuple[str, ...]:
    """Reasons why a resume here cannot promise the same bits. Writes nothing.

    Raises:
        IdentityMismatch: other data, or another number of processes without permission.
    """
    if payload is None:
        return ()
    old_data = payload.get("data_fingerprint")
    if old_data and fingerprint and old_data != fingerprint:
        raise guard.mismatch(paths, "the checkpoint", [("data (SHA-256)", old_data, fingerprint)])
    before = payload.get("environment", {})
    reasons = []
    old_size, size = before.get("world_size", here["world_size"]), here["world_size"]
    if old_size != size:
        if not allow_world_size_change:
            raise IdentityMismatch(
                f"{paths.root} was trained by {old_size} processes, not {size} (world_size: {old_size} -> {size}), "
                f"and the number changes random numbers and batches. Start {old_size} again, or set "
                "allow_world_size_change: true in the collection's operational keys to go on inexactly. "
                "Nothing was written."
            )
        reasons.append(f"{old_size} -> {size} processes")
    for key, what in (("torch", "torch"), ("device", "device")):
        if before.get(key) is not None and before[key] != here[key]:
            reasons.append(f"{what} {before[key]} -> {here[key]}")
    return tuple(reasons)


def _load(part: Stateful, state: Any) -> None:
    part.load_state_dict(state)


RESTORERS: dict[str, Callable[[Stateful, Any], None]] = {
    "model": _load,
    "optimizer": _load,
    "scheduler": _load,
    "scaler": _load,
    "ema": _load,
    "extras": _load,
}
"""By the kind of state; a test takes one out to show that it matters."""


def resume_if_requested(
    payload: Mapping[str, Any] | None, parts: Parts, plan: Plan, rank: int = 0, inexact: tuple[str, ...] = ()
) -> Resumed:
    """Put model, optimizer, scheduler, scaler, EMA, extras and all random states back; the only place that does.

    Args:
        payload: of the checkpoint, in our names; None leaves everything as it is (a fresh run).
        rank: whose random states to take.

    Raises:
        CheckpointError: the parts are not those that were saved, or do not fit them.
    """
    if payload is None:
        return Resumed()
    states = payload["states"]
    here = dict(parts.states())
    if set(here) != set(states) and not (payload.get("legacy") and set(here) >= set(states)):
        lost, new = sorted(set(states) - set(here)), sorted(set(here) - set(states))
        raise CheckpointError(
            "the checkpoint and the trainer do not hold the same states (only in the checkpoint: "
            f"{', '.join(lost) or 'none'}; only in the trainer: {', '.join(new) or 'none'}): "
            "train with the code that saved it"
        )
    for name, part in here.items():
        restorer = RESTORERS.get(name.split(".")[0])
        if name in states and restorer is not None:
            try:
                restorer(part, states[name])
            except (RuntimeError, ValueError, KeyError, TypeError) as error:
                raise CheckpointError(f"the saved state of {name} does not fit the trainer's: {error}") from error
    try:
        step = int(payload["position"]["global_step"])
        epoch, batch = plan.position(step)
    except ValueError as error:
        raise CheckpointError(f"the checkpoint is not of this training: {error}; has the data changed?") from error
    order = payload.get("order", {})
    if order.get("mode") == LEGACY and payload.get("legacy") and epoch > 0 and batch > 0:
        raise CheckpointError(
            f"the old checkpoint stands in the middle of epoch {epoch}, whose order only epoch 0 allows to reconstruct"
        )
    random_states = payload["rng"]
    if rank < len(random_states):
        rng.restore(random_states[rank])
    evaluation = payload.get("evaluation") or {}
    return Resumed(
        global_step=step,
        start_epoch=epoch,
        resume_batch_idx=batch,
        order_mode=order.get("mode", EPOCH_SEEDED),
        sampler_seed=order.get("sampler_seed") if order.get("epoch") == epoch else None,
        evaluated_step=int(evaluation.get("step", step if payload.get("legacy") and step < plan.total_steps else 0)),
        evaluation=evaluation.get("values"),
        pending_row=payload.get("pending_row"),
        metrics_bytes=payload.get("metrics_bytes"),
        inexact=inexact,
    )

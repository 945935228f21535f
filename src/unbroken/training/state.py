"""Where a run stands, in memory: what a checkpoint has to hold besides the random states."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from unbroken.training import payload
from unbroken.training.guard import Identity
from unbroken.training.order import LEGACY, Orders
from unbroken.training.parts import Parts
from unbroken.training.position import Plan
from unbroken.training.resume import Resumed

Evaluate = Callable[[Callable[[], None]], Mapping[str, float]]
"""Called with ``check``, which it calls every second or so; returns the values of one evaluation."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One effective batch to train."""

    epoch: int
    index: int
    """Its place in the epoch, from 0."""
    step: int
    """Effective batches committed before it."""
    records: torch.Tensor
    """int64: the record indices of all processes, in order."""
    logged: bool
    """Whether its loss will be asked for."""


def environment(device: torch.device, world_size: int) -> dict[str, Any]:
    """What the last bits of a result depend on besides the config."""
    return {
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "device": device.type,
        "world_size": world_size,
    }


@dataclass
class State:
    """One run at the end of an effective batch."""

    identity: Identity
    parts: Parts
    plan: Plan
    orders: Orders
    fingerprint: str
    environment: dict[str, Any]
    evaluate_every: int | None = None
    """Effective batches between evaluations besides those at the end of an epoch; None = no evaluations at all."""
    log_every: int = 1
    global_step: int = 0
    evaluated_step: int = 0
    """The last step with a finished evaluation."""
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    """Its values."""
    row: dict[str, Any] | None = None
    """The row of metrics.csv that waits for an evaluation."""

    def take(self, resumed: Resumed, peeked_sampler_seed: int) -> None:
        """Stand where the checkpoint stood.

        Args:
            peeked_sampler_seed: what RandomSampler would have drawn after the build: the order of a legacy epoch 0.
        """
        self.global_step, self.evaluated_step = resumed.global_step, resumed.evaluated_step
        self.evaluation = resumed.evaluation or {}
        self.row = dict(resumed.pending_row) if resumed.pending_row is not None else None
        self.orders.mode = resumed.order_mode
        if resumed.order_mode == LEGACY and (resumed.resume_batch_idx or resumed.sampler_seed is not None):
            known = resumed.sampler_seed
            self.orders.set_sampler(resumed.start_epoch, peeked_sampler_seed if known is None else known)

    @property
    def key(self) -> tuple[int, int]:
        """Equal for equal states."""
        return self.global_step, self.evaluated_step

    def after(self, step: int) -> tuple[bool, bool, bool]:
        """What follows an effective batch (counted from 1): (a row of metrics.csv, an evaluation, an epoch's end)."""
        every, ends = self.evaluate_every, self.plan.ends_epoch(step)
        evaluates = every is not None and (ends or (every > 0 and step % every == 0))
        return evaluates or ends or step % self.log_every == 0, evaluates, ends

    @property
    def evaluation_due(self) -> bool:
        """An evaluation of the present step was not finished."""
        return self.evaluated_step != self.global_step and self.after(self.global_step)[1]

    def payload(self, metrics_bytes: int | None) -> dict[str, Any]:
        """Everything but the random states, in types that load with weights_only.

        Raises:
            CheckpointError: a part has a state that could not be loaded again.
        """
        return {
            "format": payload.FORMAT,
            "config_snapshot": payload.plain(self.identity.config, "config"),
            "config_hash": self.identity.config_hash,
            "seed": self.identity.seed,
            "position": {"global_step": self.global_step},
            "order": self.orders.state(),
            "states": {name: payload.plain(part.state_dict(), f"states.{name}") for name, part in self.parts.states()},
            "environment": self.environment,
            "data_fingerprint": self.fingerprint,
            "evaluation": {"step": self.evaluated_step, "values": payload.plain(dict(self.evaluation), "evaluation")},
            "pending_row": payload.plain(self.row, "pending_row"),
            "metrics_bytes": metrics_bytes,
        }

    def note(self) -> dict[str, Any]:
        """For the sidecar: where the checkpoint stands, for a reader."""
        epoch, batch = self.plan.position(self.global_step)
        fresh = self.evaluated_step == self.global_step
        return {
            "global_step": self.global_step,
            "total_steps": self.plan.total_steps,
            "epoch": epoch,
            "batch": batch,
            "config_hash": self.identity.config_hash,
            "train_order_mode": self.orders.mode,
            "world_size": self.environment["world_size"],
            "metric": next(iter(self.evaluation.values()), None) if fresh else None,
        }

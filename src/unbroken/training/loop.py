"""The training loop of the built-in trainers: effective batches, each committed to the session."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from unbroken.errors import CollectionError
from unbroken.training.loader import Fetcher
from unbroken.training.parts import Parts, Task
from unbroken.training.position import Plan
from unbroken.training.session import Session
from unbroken.training.state import Batch

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Settings:
    """The keys of a run config that the loop itself obeys."""

    batch_size: int
    epochs: int = 1
    steps: int | None = None
    accumulation: int = 1
    clip_norm: float | None = None
    """Largest norm of the gradient; None = as it is."""
    precision: str = "fp32"
    """fp32, bf16 or fp16 (autocast)."""
    evaluate_every: int = 0
    """Effective batches between evaluations besides those at the end of an epoch; 0 = none."""
    drop_last: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Settings":
        """From a run config.

        Raises:
            CollectionError: a key is missing or has a value of the wrong kind.
        """
        numbers = {
            "batch_size": int,
            "epochs": int,
            "steps": int,
            "accumulation": int,
            "evaluate_every": int,
            "clip_norm": float,
        }
        values: dict[str, Any] = {key: config[key] for key in cls.__dataclass_fields__ if config.get(key) is not None}
        if "batch_size" not in values:
            raise CollectionError(
                "the config has no batch_size; give the records of a micro-batch, e.g. batch_size: 64"
            )
        for key, kind in numbers.items():
            value = values.get(key)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int) or value < 0
            ):
                raise CollectionError(f"{key} is {value!r}; give a number that is not negative")
        if values.get("precision", "fp32") not in ("fp32", *_DTYPES):
            raise CollectionError(f"precision is {values['precision']!r}; give fp32, bf16 or fp16")
        return cls(**values)

    def plan(self, records: int, world_size: int = 1) -> Plan:
        """Raises CollectionError where the numbers make no training."""
        try:
            return Plan(
                records,
                self.batch_size,
                self.epochs,
                self.accumulation,
                world_size,
                drop_last=self.drop_last,
                steps=self.steps,
            )
        except ValueError as error:
            raise CollectionError(str(error)) from error


def train(task: Task, session: Session, settings: Settings) -> Parts:
    """Train a task from where its run stands to its end, and write its result.

    Raises:
        SystemExit: 42 after a graceful stop.
        UnbrokenError: see ``Session.open`` and ``Session.attach``.
    """
    plan = settings.plan(task.records, session.world.size)
    parts = task.build(session.device)
    session.attach(
        parts,
        plan,
        columns=task.columns,
        fingerprint=task.fingerprint,
        evaluate=lambda check: _evaluate(task, parts, check),
        evaluate_every=settings.evaluate_every,
    )
    fetcher = Fetcher(task, session.seed, session.request.count("num_workers"))
    step = _Step(task, session, settings, parts, plan, fetcher)
    try:
        parts.model.train()
        for batch in session.batches():
            step.run(batch)
    finally:
        fetcher.close()
    further = session.during(lambda check: task.finish(parts, check))
    session.complete(**further)
    return parts


def _evaluate(task: Task, parts: Parts, check: Any) -> Mapping[str, float]:
    parts.model.eval()
    try:
        with torch.no_grad():
            return task.evaluate(parts, check)
    finally:
        parts.model.train()


class _Step:
    """One effective batch: its micro-batches, the optimizer's step, the commit."""

    def __init__(
        self, task: Task, session: Session, settings: Settings, parts: Parts, plan: Plan, fetcher: Fetcher
    ) -> None:
        self.task, self.session, self.settings, self.parts, self.plan = task, session, settings, parts, plan
        self.fetcher = fetcher
        self.parameters = [p for p in parts.model.parameters() if p.requires_grad]
        self.epoch = -1
        self.on_cpu = session.device.type == "cpu"
        dtype = _DTYPES.get(settings.precision)
        self.loss: Any = task.loss if dtype is None else torch.autocast(session.device.type, dtype=dtype)(task.loss)

    def _start_epoch(self, batch: Batch) -> None:
        """Tell the workers what comes: every micro-batch from here to the end of the epoch (or of the run)."""
        self.epoch = batch.epoch
        if not self.fetcher.workers:
            return
        self.session.flush()  # no worker is forked while a thread writes
        order = self.session.order(batch.epoch)
        last = min(self.plan.per_epoch, batch.index + self.plan.total_steps - batch.step)
        bounds = [
            bound
            for index in range(batch.index, last)
            for bound in self.plan.micro_batches(index, self.session.world.rank)
        ]
        self.fetcher.start([(order[a:b], batch.epoch) for a, b in bounds if b > a])

    def run(self, batch: Batch) -> None:
        if batch.epoch != self.epoch:
            self._start_epoch(batch)
        parts, scaler, total = self.parts, self.parts.scaler, len(batch.records)
        parts.optimizer.zero_grad(set_to_none=True)
        losses: list[torch.Tensor] = []
        values: dict[str, torch.Tensor] = {}
        for records in self.session.micro_batches(batch):
            data = self.fetcher.next((records, batch.epoch))
            if not self.on_cpu:
                data = _to(data, self.session.device)
            share = len(records) / total
            loss, further = self.loss(parts, data, batch.step)
            part = loss if share == 1.0 else loss * share
            (scaler.scale(part) if scaler is not None else part).backward()
            if batch.logged:
                losses.append(part.detach())
                for name, value in further.items():
                    weighted = value.detach() * share
                    values[name] = values[name] + weighted if name in values else weighted
        lr = float(parts.optimizer.param_groups[0]["lr"]) if batch.logged else None
        self._update()
        if batch.logged:
            zero = torch.zeros((), device=self.session.device)
            total_loss = self.session.world.mean(sum(losses, zero))
            values = {name: self.session.world.mean(values[name]) for name in sorted(values)}
            self.session.commit(total_loss, lr, **values)
        else:
            self.session.commit()

    def _update(self) -> None:
        """Sum over the ranks, unscale, clip, step; the scheduler and the EMA exactly once."""
        parts, scaler = self.parts, self.parts.scaler
        self.session.world.sum_gradients(self.parameters)
        if self.settings.clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(parts.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip_norm)
        if scaler is not None:
            scaler.step(parts.optimizer)
            scaler.update()
        else:
            parts.optimizer.step()
        if parts.scheduler is not None:
            parts.scheduler.step()
        if parts.ema is not None:
            parts.ema.update(parts.model)


def _to(value: Any, device: torch.device) -> Any:
    """A micro-batch on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _to(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_to(item, device) for item in value)
    return value

"""A task in which every kind of state matters, and how to run, interrupt and compare it inside one process."""

import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from unbroken.collection.run_dir import RunPaths
from unbroken.training import preemption
from unbroken.training.loop import Settings, train
from unbroken.training.order import record_generator
from unbroken.training.parts import Ema, Parts
from unbroken.training.session import Session

CONFIG = {
    "epochs": 2,
    "batch_size": 8,
    "accumulation": 2,
    "clip_norm": 1.0,
    "checkpoint_interval": 2,
    "log_every": 1,
    "seed": 3,
}
"""40 records, effective batches of 16: 3 an epoch (the last one short), 6 in all."""
STEPS = 6


class Toy:
    """Dropout (torch), a factor from NumPy, one from Python, noise by record; Adam, a decaying rate, EMA, a scaler."""

    columns = ("score", "noise")
    records = 40
    fingerprint = ""

    def __init__(self, seed: int, augments: bool = False) -> None:
        self.seed, self.augments = seed, augments
        generator = torch.Generator().manual_seed(11)
        self.x = torch.randn(self.records, 4, generator=generator)
        self.y = self.x.sum(dim=1).sin()
        self.seen: list[tuple[int, int, tuple[int, ...]]] = []
        self.in_evaluation: Callable[[int], None] = lambda turn: None
        self.parts: Parts | None = None

    def build(self, device: torch.device) -> Parts:
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)).to(
            device
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)
        scaler = torch.amp.GradScaler(device.type, init_scale=4.0, growth_interval=2)
        self.parts = Parts(model, optimizer, scheduler, scaler, Ema(model, 0.9))
        return self.parts

    def fetch(self, records: torch.Tensor, epoch: int) -> Any:
        noise = [torch.randn(4, generator=record_generator(self.seed, epoch, r)) for r in records.tolist()]
        x = self.x[records] + 0.1 * torch.stack(noise)
        if self.augments:
            x = x * (1 + 0.5 * np.random.random() + 0.5 * random.random()) + 0.1 * torch.randn_like(x)
        return {"x": x, "y": self.y[records], "records": records, "epoch": epoch}

    def loss(self, parts: Parts, batch: Any, step: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        self.seen.append((step, batch["epoch"], tuple(batch["records"].tolist())))
        factor = 1 + 0.1 * float(np.random.random()) + 0.1 * random.random()
        loss = nn.functional.mse_loss(parts.model(batch["x"]).squeeze(-1), batch["y"]) * factor
        return loss, {"noise": torch.tensor(factor)}

    def evaluate(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, float]:
        total = 0.0
        for turn in range(3):
            self.in_evaluation(turn)
            check()
            total += float((parts.model(self.x + torch.randn(4)).squeeze(-1) - self.y).abs().mean())
        return {"score": total / 3}

    def finish(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, Any]:
        check()
        return {"draw": float(torch.rand(()))}


def run_toy(folder: Path, config: Mapping[str, Any] = CONFIG, task: Toy | None = None, **options: Any) -> int:
    """One attempt; its exit code. Errors go through."""
    preemption.FLAG.clear()
    try:
        with Session.open(folder, config, trainer="toy", **options) as session:
            if not session.finished:
                train(task or Toy(session.seed), session, Settings.of(config))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def run_to_the_end(folder: Path, config: Mapping[str, Any] = CONFIG, **options: Any) -> None:
    """Attempts until one is not resumable."""
    for _ in range(50):
        if run_toy(folder, config, **options) == 0:
            return
    raise AssertionError("it never finished")


@contextmanager
def signal_at(step: int, name: str = "SIGTERM", times: int = 1) -> Any:
    """Send this process a real signal in the effective batch that is to become ``step`` (0: before the first)."""
    real_commit, real_batches = Session.commit, Session.batches

    def send() -> None:
        for _ in range(times):
            os.kill(os.getpid(), getattr(signal, name))

    def commit(self: Session, *args: Any, **values: Any) -> None:
        if self.global_step + 1 == step:
            send()
        real_commit(self, *args, **values)

    def batches(self: Session) -> Any:
        if step == 0:
            send()
        return real_batches(self)

    Session.commit, Session.batches = commit, batches  # type: ignore[method-assign]
    try:
        yield
    finally:
        Session.commit, Session.batches = real_commit, real_batches  # type: ignore[method-assign]


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that has to be the same: the result, the metrics, and each state in last.pt, random ones included."""
    paths = RunPaths(folder)
    payload = torch.load(paths.last, weights_only=True)
    found = {"result": paths.result.read_bytes(), "metrics": paths.metrics.read_bytes(), "last.pt": payload}
    for name in ("predictions.csv", "skill.csv"):
        if (folder / name).exists():
            found[name] = (folder / name).read_bytes()
    return found


def differences(one: Any, other: Any, name: str = "") -> list[str]:
    """The places where two values are not equal bit for bit."""
    if type(one) is not type(other):
        return [name]
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and one.shape == other.shape
        bits = torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8)) if same else False
        return [] if same and (bits or not one.numel()) else [name]
    if isinstance(one, Mapping):
        if list(one) != list(other):
            return [f"{name} keys"]
        return [place for key in one for place in differences(one[key], other[key], f"{name}.{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [name]
        return [p for i, (a, b) in enumerate(zip(one, other, strict=True)) for p in differences(a, b, f"{name}[{i}]")]
    return [] if one == other else [name]


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    """The events of one kind."""
    lines = RunPaths(folder).events.read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["event"] == name]


def status(folder: Path) -> dict[str, Any]:
    """run_status.json."""
    return json.loads(RunPaths(folder).status.read_text())


@contextmanager
def quiet_process() -> Any:
    """One thread, and the handlers of the test runner back afterwards."""
    handlers = {number: signal.getsignal(number) for number in preemption.SIGNALS}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        preemption.FLAG.clear()
        torch.set_num_threads(threads)

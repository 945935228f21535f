"""What is trained in the benchmarks: a small regression with Adam, sized by its width; and payloads of a given size."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unbroken.training.parts import Parts


def payload(megabytes: float) -> dict[str, Any]:
    """A checkpoint of so many megabytes: a model and Adam's two moments, in tensors of a quarter megabyte."""
    count = max(1, round(megabytes * 1e6 / 3 / 240_000))
    made = {name: [torch.randn(60_000) for _ in range(count)] for name in ("weights", "mean", "square")}
    return {"format": 1, "states": made}


class Regression:
    """A multilayer perceptron on made-up records; ``trace`` gets a line for each step that is begun."""

    columns = ()
    fingerprint = ""
    augments = False

    def __init__(self, width: int, records: int, trace: Path | None = None, dropout: float = 0.0) -> None:
        self.width, self.records, self.dropout = width, records, dropout
        generator = torch.Generator().manual_seed(11)
        self.x = torch.randn(records, 64, generator=generator)
        self.y = self.x.sum(dim=1, keepdim=True).sin()
        self.times: list[float] = []
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if trace else None

    def build(self, device: torch.device) -> Parts:
        width = self.width
        layers = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)]
        if self.dropout:
            layers.insert(2, nn.Dropout(self.dropout))
        model = nn.Sequential(*layers)
        return Parts(model, torch.optim.Adam(model.parameters(), lr=1e-3))

    def fetch(self, records: torch.Tensor, epoch: int) -> Any:
        return self.x[records], self.y[records]

    def loss(self, parts: Parts, batch: Any, step: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        self.times.append(time.perf_counter())
        if self._trace is not None:
            os.write(self._trace, f"{step} {time.time():.6f}\n".encode())
        return nn.functional.mse_loss(parts.model(batch[0]), batch[1]), {}

    def evaluate(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, float]:
        return {}

    def finish(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, Any]:
        return {}


def bare_loop(task: Regression, batch_size: int, seed: int, log: Path) -> None:
    """The same training as anybody writes it: one epoch, a row of a CSV file every ten steps, no recovery at all."""
    torch.manual_seed(seed)
    parts = task.build(torch.device("cpu"))
    order = torch.randperm(task.records)
    parts.model.train()
    with open(log, "w", buffering=1) as file:
        for step, first in enumerate(range(0, task.records, batch_size)):
            batch = task.fetch(order[first : first + batch_size], 0)
            parts.optimizer.zero_grad(set_to_none=True)
            loss, _ = task.loss(parts, batch, step)
            loss.backward()
            parts.optimizer.step()
            if (step + 1) % 10 == 0:
                file.write(f"{step + 1},0,{parts.optimizer.param_groups[0]['lr']},{loss.item()}\n")

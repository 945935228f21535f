"""What a run trains, and what a trainer has to say about itself."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn


class Stateful(Protocol):
    """Anything whose state can be saved and put back."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


class Scheduler(Stateful, Protocol):
    """A learning-rate schedule; the loop steps it once an effective batch."""

    def step(self) -> Any: ...


@dataclass
class Parts:
    """Everything with a state that training changes."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: Scheduler | None = None
    scaler: torch.amp.GradScaler | None = None
    ema: "Ema | None" = None
    extras: dict[str, Stateful] = field(default_factory=dict)
    """Further states by name: a generator of your own, a replay buffer, running statistics."""

    def states(self) -> Iterator[tuple[str, Stateful]]:
        """(name, object) of every part that is there, model first."""
        for name in ("model", "optimizer", "scheduler", "scaler", "ema"):
            part = getattr(self, name)
            if part is not None:
                yield name, part
        for name in sorted(self.extras):
            yield f"extras.{name}", self.extras[name]


class Ema:
    """Exponential moving average of a model's floating-point state, with a warm-up that counts its updates.

    decay_t = min(decay, (1 + t) / (10 + t)), as in TensorFlow's ExponentialMovingAverage with num_updates.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.shadow = {
            name: value.detach().clone() for name, value in model.state_dict().items() if value.is_floating_point()
        }

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take the model of one more effective batch into the average."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        values = model.state_dict()
        for name, average in self.shadow.items():
            average.lerp_(values[name], 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return {"decay": self.decay, "updates": self.updates, "shadow": dict(self.shadow)}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Raises KeyError where the model has other names than the saved one."""
        self.decay, self.updates = float(state_dict["decay"]), int(state_dict["updates"])
        for name, average in self.shadow.items():
            average.copy_(state_dict["shadow"][name])


class Task(Protocol):
    """One trainer: how to build, fetch, judge. ``loop.train`` does the rest.

    Only ``build`` and ``loss`` may draw from the global random generators. ``fetch`` may run in a worker process and
    takes its randomness from ``order.record_generator(seed, epoch, record)``, or sets ``augments`` and uses the global
    ones.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the further values in metrics.csv: those of ``loss`` and of ``evaluate``."""
        ...

    @property
    def records(self) -> int:
        """How many training records there are."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the data, in hex; "" where the config alone defines it."""
        ...

    @property
    def augments(self) -> bool:
        """``fetch`` draws from the global generators: they are then seeded for each micro-batch and put back."""
        ...

    def build(self, device: torch.device) -> Parts:
        """Model on ``device``, optimizer and the rest, in their first state."""
        ...

    def fetch(self, records: torch.Tensor, epoch: int) -> Any:
        """One micro-batch: a tensor, or tuple/list/dict of tensors, on the CPU. ``records``: int64 [<= batch_size]."""
        ...

    def loss(self, parts: Parts, batch: Any, step: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """(mean loss over the micro-batch, further values to log). ``step`` counts effective batches from 0."""
        ...

    def evaluate(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, float]:
        """The evaluation's values; by the first of them ``keep_best`` judges, smaller is better.

        Calls ``check()`` every second or so: it raises where a stop is asked for."""
        ...

    def finish(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, Any]:
        """Write the final outputs, return what result.json is to hold besides the last evaluation."""
        ...

"""Learning rate: linear warm-up, then half a cosine down to a floor (Loshchilov and Hutter 2017, without restarts)."""

import math
from typing import Any

import torch


def factor(step: int, warmup_steps: int, total_steps: int, floor: float) -> float:
    """The share of the peak learning rate that effective batch ``step`` (from 0) is trained with.

    Args:
        floor: the share at the end.
    """
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    progress = (step - warmup_steps) / max(total_steps - warmup_steps, 1)
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


class WarmupCosine:
    """Sets the learning rate of every group of an optimizer, once an effective batch.

    Its only state is the number of steps taken, from which the rate follows: a second ``step`` can be seen, and the
    resumed rate does not depend on how it was reached.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, warmup_steps: int, total_steps: int, floor: float = 0.0
    ) -> None:
        self.optimizer = optimizer
        self.warmup_steps, self.total_steps, self.floor = warmup_steps, total_steps, floor
        self.peaks = [float(group["lr"]) for group in optimizer.param_groups]
        self.steps = 0
        self._apply()

    def _apply(self) -> None:
        share = factor(self.steps, self.warmup_steps, self.total_steps, self.floor)
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * share

    def step(self) -> None:
        """One effective batch is done."""
        self.steps += 1
        self._apply()

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Also takes the state of a torch.optim.lr_scheduler, which older checkpoints hold.

        Raises:
            KeyError: it is neither.
        """
        self.steps = int(state_dict["steps"] if "steps" in state_dict else state_dict["last_epoch"])
        self._apply()

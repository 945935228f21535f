"""Real-valued sequences with known factors, each of which acts on channels of its own.

Every sequence has one level of each of four independent factors, uniform over ``factor_values`` levels:

| factor | its channels at time t of T |
| --- | --- |
| amplitude | a sin(2 pi t / T), a from 0.5 to 1.5 |
| frequency | sin(2 pi f t / T), f from 0.5 to 2 cycles |
| slope | s (2 t / T - 1), s from -1 to 1 |
| offset | o, from -1 to 1 |

Observed with independent noise of standard deviation ``noise``. So p(x | factors) is a product over the factors, and a
perfect code of the sequence has one number for each of them: that is what a disentanglement score asks for.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from unbroken.data import counter
from unbroken.data.settings import at_least, within

TRAIN, VALID = 0, 1
"""Splits: unrelated sequences of one process."""

FACTORS = ("amplitude", "frequency", "slope", "offset")
_LEVEL, _NOISE = range(2)


def _curve(factor: str, share: float, time: float) -> float:
    """A factor's channel without noise. ``share``: its level from 0 to 1; ``time``: from 0 to 1."""
    if factor == "amplitude":
        return (0.5 + share) * math.sin(2 * math.pi * time)
    if factor == "frequency":
        return math.sin(2 * math.pi * (0.5 + 1.5 * share) * time)
    return (2 * share - 1) * (2 * time - 1) if factor == "slope" else 2 * share - 1


@dataclass(frozen=True)
class FactorisedSequences:
    """The process; a sequence is made from its number whenever it is asked for.

    Raises:
        CollectionError: a parameter outside its range.
    """

    records: int = 1024
    """Training sequences."""
    length: int = 16
    """Time steps a sequence."""
    factor_values: int = 5
    """Levels of each factor."""
    channels_per_factor: int = 1
    noise: float = 0.1
    """Standard deviation; the curves are of the order of 1."""
    valid_records: int = 512
    """Validation sequences; the disentanglement score is estimated on them."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("records", 1), ("length", 2), ("factor_values", 2), ("channels_per_factor", 1)):
            at_least(f"data.{name}", getattr(self, name), least)
        at_least("data.valid_records", self.valid_records, 1)
        within("data.noise", self.noise, 0.0, 100.0)

    @property
    def channels(self) -> int:
        """Observed channels: ``channels_per_factor`` of each factor, in the order of FACTORS."""
        return len(FACTORS) * self.channels_per_factor

    @cached_property
    def _curves(self) -> counter.Array:
        """float64 [factors, levels, length]: every factor at every level, by libm and not by SIMD approximations."""
        last = self.factor_values - 1
        times = [step / self.length for step in range(self.length)]
        return np.array(
            [[[_curve(f, level / last, t) for t in times] for level in range(self.factor_values)] for f in FACTORS]
        )

    def factors(self, records: torch.Tensor, split: int = TRAIN) -> torch.Tensor:
        """int64 [n, factors]: the levels, in the order of FACTORS, of the sequences numbered ``records``, int64 [n]."""
        address = (records.numpy()[:, None], np.arange(len(FACTORS))[None, :])
        return torch.from_numpy(counter.integers(self.factor_values, self.seed, split, _LEVEL, *address))

    def values(self, records: torch.Tensor, split: int = TRAIN) -> torch.Tensor:
        """float32 [n, length, channels]: the sequences numbered ``records``, int64 [n]."""
        levels = self.factors(records, split).numpy()
        clean = self._curves[np.arange(len(FACTORS))[None, :], levels]  # [n, factors, length]
        clean = np.repeat(clean, self.channels_per_factor, axis=1).transpose(0, 2, 1)
        places = np.arange(self.length * self.channels).reshape(1, self.length, self.channels)
        noise = counter.normal(self.seed, split, _NOISE, records.numpy()[:, None, None], places)
        return torch.from_numpy((clean + self.noise * noise).astype(np.float32))

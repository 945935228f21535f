"""Token sequences whose generating factors are mixed in every token: no part of a token tells one factor alone.

Each of ``task_size`` factors goes round a circle of ``factor_values`` places with a start and a speed of its own,
drawn for each sequence: ``z_k(t) = (start_k + speed_k * t) mod factor_values``. The token at time t is a fixed random
one-to-one map of the whole tuple ``(z_1(t), ..., z_K(t))``, so the vocabulary has ``factor_values ** task_size``
tokens and every factor moves every token. With probability ``noise`` a token is replaced by any token. To foretell
the next token a model has to undo the mixing and read the speeds off the tokens so far; how hard that is, is set by
``task_size``.
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

_MAP, _START, _SPEED, _NOISY, _REPLACEMENT = range(5)
MAX_VOCABULARY = 65_536


@dataclass(frozen=True)
class EntangledSequences:
    """The process; a sequence is made from its number whenever it is asked for.

    Raises:
        CollectionError: a parameter outside its range.
    """

    records: int = 1024
    """Training sequences."""
    length: int = 16
    """Predicted tokens a sequence; it has one more, the first one's input."""
    task_size: int = 2
    """Factors mixed in each token."""
    factor_values: int = 5
    """Places on each factor's circle."""
    noise: float = 0.0
    """Probability that a token is replaced."""
    valid_records: int = 128
    """Validation sequences."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("records", 1),
            ("length", 1),
            ("task_size", 1),
            ("factor_values", 2),
            ("valid_records", 1),
        ):
            at_least(f"data.{name}", getattr(self, name), least)
        within("data.noise", self.noise, 0.0, 1.0)
        within("data.factor_values ** data.task_size", self.vocabulary, 2, MAX_VOCABULARY)

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return int(self.factor_values**self.task_size)

    @cached_property
    def _token_of(self) -> counter.Array:
        """int64 [vocabulary]: the token of each tuple of factor places, the tuple read as a number."""
        return counter.permutation(self.vocabulary, self.seed, _MAP)

    def factors(self, records: torch.Tensor, split: int = TRAIN) -> tuple[counter.Array, counter.Array]:
        """(start, speed), each int64 [n, task_size], of the sequences numbered ``records``, int64 [n]."""
        address = (records.numpy()[:, None], np.arange(self.task_size)[None, :])
        start = counter.integers(self.factor_values, self.seed, split, _START, *address)
        speed = 1 + counter.integers(self.factor_values - 1, self.seed, split, _SPEED, *address)
        return start, speed

    def tokens(self, records: torch.Tensor, split: int = TRAIN) -> torch.Tensor:
        """int64 [n, length + 1]: the sequences numbered ``records``, int64 [n]."""
        start, speed = self.factors(records, split)
        time = np.arange(self.length + 1)
        places = (start[:, None, :] + speed[:, None, :] * time[None, :, None]) % self.factor_values
        weights = self.factor_values ** np.arange(self.task_size)
        clean = self._token_of[(places * weights).sum(axis=-1)]
        address = (records.numpy()[:, None], time[None, :])
        noisy = counter.uniform(self.seed, split, _NOISY, *address) < self.noise
        replacement = counter.integers(self.vocabulary, self.seed, split, _REPLACEMENT, *address)
        return torch.from_numpy(np.where(noisy, replacement, clean))

    @property
    def loss_floor(self) -> float:
        """Nats a token: the cross-entropy of a model that has learnt everything and sees noise only in the target."""
        other = self.noise / self.vocabulary
        right = 1 - self.noise + other
        rest = 0.0 if other == 0 else -(self.vocabulary - 1) * other * math.log(other)
        return rest - right * math.log(right)

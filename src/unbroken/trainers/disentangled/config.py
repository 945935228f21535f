"""The keys of a disentangled run, besides those of the loop and of the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unbroken.data.sequences_factorised import FactorisedSequences
from unbroken.data.settings import at_least
from unbroken.errors import CollectionError
from unbroken.trainers.reading import read_config
from unbroken.training.loop import Settings


@dataclass(frozen=True)
class DisentangledConfig:
    """Model and optimizer.

    Raises:
        CollectionError: a value outside its range.
    """

    beta: float = 1.0
    """Weight of the KL in the loss; 1 is the ELBO."""
    beta_warmup_steps: int = 0
    """Effective batches over which the weight grows to ``beta``."""
    latent: int = 6
    """Coordinates of the latent vector."""
    hidden: int = 32
    """Units of the encoder and of the decoder."""
    observation_std: float = 0.3
    """Standard deviation of p(x | z)."""
    lr: float = 0.003

    def __post_init__(self) -> None:
        at_least("latent", self.latent, 1)
        at_least("hidden", self.hidden, 1)
        for name in ("beta", "beta_warmup_steps", "lr"):
            at_least(name, getattr(self, name), 0)
        if self.observation_std <= 0:
            raise CollectionError(f"observation_std is {self.observation_std!r}; it must be above 0")


def read(config: Mapping[str, Any]) -> tuple[DisentangledConfig, FactorisedSequences, Settings]:
    """From a run config.

    Raises:
        CollectionError: an unknown key, or a value of the wrong kind.
    """
    own, data, settings = read_config(config, DisentangledConfig, FactorisedSequences)
    if settings.precision == "fp16":
        raise CollectionError("precision is fp16, in which this trainer's likelihoods overflow; write fp32 or bf16")
    return own, data, settings

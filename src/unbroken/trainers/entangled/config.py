"""The keys of an entangled run, besides those of the loop and of the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unbroken.data.sequences_entangled import EntangledSequences
from unbroken.data.settings import at_least, within
from unbroken.errors import CollectionError
from unbroken.trainers.reading import read_config
from unbroken.training.loop import Settings

EXPERIMENTS = ("task_size", "pretrained")


@dataclass(frozen=True)
class EntangledConfig:
    """Model, optimizer and schedule.

    Raises:
        CollectionError: a value outside its range.
    """

    experiment: str = "task_size"
    """``task_size`` starts from random weights; ``pretrained`` from those that ``pretrained:`` names."""
    width: int = 32
    """Of the residual stream; a multiple of ``heads``."""
    layers: int = 2
    heads: int = 2
    dropout: float = 0.0
    lr: float = 0.003
    """At the peak, after the warm-up."""
    weight_decay: float = 0.01
    """AdamW's."""
    warmup_steps: int = 0
    """Effective batches of linear warm-up."""
    final_lr_share: float = 0.1
    """Where the cosine ends, as a share of ``lr``."""
    ema_decay: float = 0.0
    """Of the moving average of the weights; 0 = no average."""
    loss_scale: float = 65536.0
    """First scale of the loss; ``precision: fp16`` only."""
    loss_scale_growth_interval: int = 2000
    """Effective batches without overflow before the scale doubles."""

    def __post_init__(self) -> None:
        if self.experiment not in EXPERIMENTS:
            raise CollectionError(f"experiment is {self.experiment!r}; write {' or '.join(EXPERIMENTS)}")
        for name in ("width", "layers", "heads", "loss_scale", "loss_scale_growth_interval"):
            at_least(name, getattr(self, name), 1)
        at_least("lr", self.lr, 0)
        at_least("weight_decay", self.weight_decay, 0)
        at_least("warmup_steps", self.warmup_steps, 0)
        for name in ("dropout", "final_lr_share", "ema_decay"):
            within(name, getattr(self, name), 0.0, 1.0)
        if self.width % self.heads:
            raise CollectionError(f"width is {self.width} and heads is {self.heads}; width must be a multiple of heads")


def read(config: Mapping[str, Any]) -> tuple[EntangledConfig, EntangledSequences, Settings]:
    """From a run config.

    Raises:
        CollectionError: an unknown key, a value of the wrong kind, or ``pretrained`` where it does not belong.
    """
    own, data, settings = read_config(config, EntangledConfig, EntangledSequences, frozenset(["pretrained"]))
    wanted = own.experiment == "pretrained"
    if wanted and not config.get("pretrained"):
        raise CollectionError(
            "experiment is pretrained and nothing says what from; write pretrained: {checkpoint: PATH, sha256: HEX}, "
            "or pretrained: {steps: N, seed: S} to make the first weights here"
        )
    if not wanted and config.get("pretrained"):
        raise CollectionError(
            "pretrained is given and experiment is task_size; write experiment: pretrained, or leave it out"
        )
    return own, data, settings

"""Every built-in trainer at a size that trains in a fraction of a second, and how to run one inside this process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbroken.collection.yaml_io import dump_yaml
from unbroken.errors import UnbrokenError
from unbroken.trainers.consensus.main import main as consensus
from unbroken.trainers.disentangled.main import main as disentangled
from unbroken.trainers.entangled.main import main as entangled
from unbroken.training import preemption

SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT")

_COMMON = {"epochs": 2, "batch_size": 4, "log_every": 1, "checkpoint_interval": 2, "seed": 3}
_MODEL = {"trainer": "entangled", "width": 8, "layers": 1, "heads": 2, "dropout": 0.1, "warmup_steps": 2}
_TOKENS = {"length": 4, "task_size": 2, "factor_values": 3, "noise": 0.1, "valid_records": 6, "seed": 5}


@dataclass(frozen=True)
class Trainer:
    """A built-in trainer with a config: 2 epochs of 3 effective batches."""

    name: str
    main: Callable[[list[str]], None]
    config: dict[str, Any]
    steps: int = 6
    per_epoch: int = 3
    options: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.name

    @property
    def module(self) -> str:
        """For ``python -m``."""
        return f"unbroken.trainers.{self.config['trainer']}"

    def write_config(self, folder: Path, **changes: Any) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "given.yaml"
        path.write_text(dump_yaml({**self.config, **changes}))
        return path


PLAIN = Trainer("entangled", entangled, {**_COMMON, **_MODEL, "data": {**_TOKENS, "records": 12}})
FULL = Trainer(
    "entangled_accumulation_ema_fp16",
    entangled,
    {
        **_COMMON, **_MODEL, "data": {**_TOKENS, "records": 22}, "accumulation": 2, "clip_norm": 1.0, "ema_decay": 0.9,
        "precision": "fp16", "loss_scale": 2.0**20, "loss_scale_growth_interval": 2, "evaluate_every": 2,
    },
)  # fmt: skip
"""22 records in groups of 8: an epoch's last group and its second micro-batch are short. The first scale overflows."""
PRETRAINED = Trainer(
    "entangled_pretrained_bf16",
    entangled,
    {
        **_COMMON, **_MODEL, "data": {**_TOKENS, "records": 12}, "experiment": "pretrained",
        "pretrained": {"steps": 2, "seed": 1}, "precision": "bf16",
    },
)  # fmt: skip
DISENTANGLED = Trainer(
    "disentangled",
    disentangled,
    {
        **_COMMON, "trainer": "disentangled", "latent": 3, "hidden": 6, "beta": 2.0, "beta_warmup_steps": 3,
        "data": {"records": 12, "length": 6, "valid_records": 20, "seed": 5},
    },
)  # fmt: skip
CONSENSUS = Trainer(
    "consensus",
    consensus,
    {
        **_COMMON, "trainer": "consensus", "batch_size": 32, "accumulation": 2, "hidden": 4, "dropout": 0.1,
        "input_noise": 0.05, "schedule": "cosine", "ema_decay": 0.9,
        "data": {"source": "synthetic_river", "basins": 2, "days": 120, "seed": 7},
    },
)  # fmt: skip
TRAINERS = (PLAIN, FULL, PRETRAINED, DISENTANGLED, CONSENSUS)


def attempt(trainer: Trainer, folder: Path, *options: str, **changes: Any) -> int:
    """One start of a trainer; its exit code. Errors go through."""
    preemption.FLAG.clear()
    return start(trainer, folder, *options, **changes)


def start(trainer: Trainer, folder: Path, *options: str, **changes: Any) -> int:
    """As ``attempt``, but a signal that has come already counts."""
    config = trainer.write_config(folder, **changes)
    try:
        trainer.main(["--config", str(config), "--run-dir", str(folder), *trainer.options, *options])
    except SystemExit as end:
        if isinstance(end.__cause__, UnbrokenError):
            raise end.__cause__ from None
        return int(end.code or 0)
    return 0


def to_the_end(trainer: Trainer, folder: Path, **changes: Any) -> None:
    """Attempts until one is not resumable."""
    for _ in range(50):
        if attempt(trainer, folder, **changes) == 0:
            return
    raise AssertionError("it never finished")

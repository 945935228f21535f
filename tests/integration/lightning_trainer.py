"""A Lightning training in which every kind of state matters: dropout, noise in the data, a schedule, accumulation.

18 records in micro-batches of 4, two of them an effective batch: 3 effective batches an epoch, the last one of a
single short micro-batch. TEST_SIGNAL=<signal>@<n> is sent in the n-th micro-batch of this start.
"""

import os
import random
import warnings
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.integration.adapters_kit import SignalAt, example
from unbroken.adapters.lightning import UnbrokenCallback
from unbroken.training import rng

STEPS, PER_EPOCH = 9, 3


class Noisy(Dataset[Any]):
    """Records with noise from the global generator, drawn where they are fetched."""

    def __init__(self, seed: int, records: int, noise: float = 0.1) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(records, 4, generator=generator)
        self.noise = noise

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index] + self.noise * torch.randn(4), self.x[index].sum().sin()


class Net(pl.LightningModule):
    def __init__(self, plateau: str, average: str) -> None:
        super().__init__()
        self.plateau, self.average_in = plateau, average
        self.register_buffer("average", torch.zeros(8))
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
        self.signal = SignalAt()

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        self.signal.count()
        factor = 1 + 0.1 * float(np.random.random()) + 0.1 * random.random()
        return nn.functional.mse_loss(self.layers(batch[0]).squeeze(-1), batch[1]) * factor

    def _average(self) -> None:
        self.average.lerp_(self.layers[0].bias.detach(), 0.5)

    def optimizer_step(self, *args: Any, **values: Any) -> None:
        super().optimizer_step(*args, **values)
        if self.average_in == "optimizer_step":
            self._average()

    def on_train_batch_end(self, *_: Any) -> None:
        if self.average_in == "on_train_batch_end":
            self._average()

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("val_loss", (self.layers(batch[0]).squeeze(-1) - batch[1]).abs().mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
        if self.plateau:
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=10.0)
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss", "interval": self.plateau},
            }
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.8)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main() -> None:
    if example(UnbrokenCallback, "on_train_batch_end"):
        return
    warnings.simplefilter("ignore")
    for name in os.environ.get("TEST_WITHOUT", "").split():
        rng.RESTORERS.pop(name)
    run = UnbrokenCallback(columns=["val_loss"])
    config = run.config
    workers = config.get("workers", 0)
    train, valid = Noisy(1, 18, 0.0 if workers else 0.1), DataLoader(Noisy(2, 6), batch_size=3)
    loader: Any = run.loader(train, 4, num_workers=workers)
    if config.get("own_loader"):
        loader = DataLoader(train, 4)
    trainer = pl.Trainer(
        accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=run.run_dir, callbacks=[run, *_further(config)], accumulate_grad_batches=2,
        max_epochs=3 if "max_steps" not in config else -1, max_steps=config.get("max_steps", -1),
        val_check_interval=config.get("val_check_interval", 1.0),
    )  # fmt: skip
    ckpt_path = None if os.environ.get("TEST_FORGETS") else run.ckpt_path
    trainer.fit(Net(config.get("plateau", ""), config.get("average", "")), loader, valid, ckpt_path=ckpt_path)


def _further(config: Any) -> list[Any]:
    if not config.get("early_stop"):
        return []
    return [pl.callbacks.EarlyStopping("val_loss", min_delta=10.0, patience=1)]

"""The same under Lightning with its SLURM auto-requeue: ``python -m benchmarks.compare.lightning_loop FOLDER SEED``."""

import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.compare.task import BATCH, PACE_S, SAVE_EVERY, STEPS, WIDTH, finish
from benchmarks.subject import Regression

SCRIPT = """#!/bin/bash
srun {python} -m benchmarks.compare.lightning_loop {folder} {seed}
"""


class Module(lightning.LightningModule):
    """The regression as Lightning wants it."""

    def __init__(self, task: Regression) -> None:
        super().__init__()
        self.task, self.parts = task, task.build(torch.device("cpu"))
        self.model = self.parts.model

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        time.sleep(PACE_S)
        return self.task.loss(self.parts, batch, self.global_step)[0]

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.model.parameters(), lr=1e-3)


def main(folder: Path, seed: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lightning.seed_everything(seed)
    folder.mkdir(parents=True, exist_ok=True)
    task = Regression(WIDTH, STEPS * BATCH, folder / "trace.txt", dropout=0.1)
    order = torch.randperm(STEPS * BATCH, generator=torch.Generator().manual_seed(seed))
    loader = DataLoader(TensorDataset(task.x[order], task.y[order]), batch_size=BATCH)
    saving = lightning.pytorch.callbacks.ModelCheckpoint(folder, save_last=True, every_n_train_steps=SAVE_EVERY)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=1, default_root_dir=folder, callbacks=[saving], logger=False,
        plugins=[SLURMEnvironment(auto_requeue=True, requeue_signal=signal.SIGUSR1)], enable_progress_bar=False,
    )  # fmt: skip
    module = Module(task)
    last = folder / "last.ckpt"
    trainer.fit(module, loader, ckpt_path=str(last) if last.exists() else None)
    if trainer.global_step >= STEPS:
        finish(folder, module.model)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

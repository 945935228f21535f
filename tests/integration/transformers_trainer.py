"""A training with Trainer in which every kind of state matters: dropout, a schedule, accumulation, sums of losses.

18 records in micro-batches of 4, two of them an effective batch: 3 effective batches an epoch, the last one of a
single short micro-batch; the loss is logged every other one. TEST_SIGNAL=<signal>@<n> is sent in the n-th micro-batch
of this start, TEST_KILL_IN_SAVE=<step> kills it when Trainer has written half of that checkpoint.
"""

import functools
import os
import random
import signal
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments, default_data_collator

from tests.integration.adapters_kit import SignalAt, example
from unbroken.adapters.transformers import UnbrokenCallback
from unbroken.training import rng

STEPS, PER_EPOCH = 9, 3


class Records(Dataset[Any]):
    def __init__(self, seed: int, records: int) -> None:
        self.x = torch.randn(records, 4, generator=torch.Generator().manual_seed(seed))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return {"x": self.x[index], "labels": self.x[index].sum().sin()}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
        self.signal = SignalAt()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
        output = self.layers(x).squeeze(-1)
        loss = nn.functional.mse_loss(output, labels)
        if self.training:
            self.signal.count()
            loss = loss * (1 + 0.1 * float(np.random.random()) + 0.1 * random.random())
        return {"loss": loss, "logits": output}


def main() -> None:
    if example(UnbrokenCallback, "on_step_end"):
        return
    warnings.simplefilter("ignore")
    without = os.environ.get("TEST_WITHOUT", "").split()
    if without:
        Trainer._load_rng_state = lambda self, checkpoint: None
    for name in without:
        rng.RESTORERS.pop(name)
    _kill_in_save(int(os.environ.get("TEST_KILL_IN_SAVE", "-1")))
    run = UnbrokenCallback(columns=["eval_loss"])
    noise = run.config.get("noise", 0.0)
    arguments = dict(run.config.get("arguments", {}))
    patience = arguments.pop("early_stop", None)
    given = {
        "output_dir": run.output_dir, "seed": run.seed, "save_strategy": "no", "use_cpu": True, "disable_tqdm": True,
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "num_train_epochs": 3,
        "learning_rate": 0.05, "eval_strategy": "epoch", "logging_steps": 2, "report_to": "none",
    }  # fmt: skip
    args = TrainingArguments(**{**given, **arguments})
    data = {"train_dataset": Records(1, 18), "eval_dataset": Records(2, 6)}
    trainer = Trainer(model=Net(), args=args, data_collator=functools.partial(_collate, noise), **data)
    if patience is not None:
        trainer.add_callback(EarlyStoppingCallback(patience, 10.0))
    if os.environ.get("TEST_FORGETS"):
        trainer.add_callback(run)
        trainer.train()
    run.train(trainer)
    states = {"model": trainer.model, "optimizer": trainer.optimizer, "scheduler": trainer.lr_scheduler}
    saved: dict[str, Any] = {name: part.state_dict() for name, part in states.items() if part}
    timeless = ("_runtime", "_per_second")
    saved["logged"] = [
        {name: row[name] for name in sorted(row) if not name.endswith(timeless)} for row in trainer.state.log_history
    ]
    saved["rng"] = rng.capture()
    torch.save(saved, run.run_dir / "end.pt")


def _collate(noise: float, records: list[Any]) -> Any:
    """With noise from the global generator, as a collator that masks tokens draws it."""
    batch = default_data_collator(records)
    return {**batch, "x": batch["x"] + noise * torch.randn_like(batch["x"])} if noise else batch


def _kill_in_save(step: int) -> None:
    real = Trainer._save_scaler

    def killed(self: Any, folder: str) -> None:
        if self.state.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        real(self, folder)

    Trainer._save_scaler = killed

"""What all four train: the regression of the benchmarks with dropout, paced, one process on one core."""

import time
from pathlib import Path

import torch
from torch import nn

from benchmarks.subject import Regression

STEPS, BATCH, WIDTH, PACE_S, SAVE_EVERY = 320, 16, 256, 0.05, 40


class Loop:
    """The state of a hand-written loop, and its step. What is saved is what people save: model, optimizer, step."""

    def __init__(self, folder: Path, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.folder, self.step = folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.task = Regression(WIDTH, STEPS * BATCH, folder / "trace.txt", dropout=0.1)
        self.parts = self.task.build(torch.device("cpu"))
        self.order = torch.randperm(STEPS * BATCH, generator=torch.Generator().manual_seed(seed))
        if (folder / "last.pt").exists():
            saved = torch.load(folder / "last.pt", weights_only=True)
            self.parts.model.load_state_dict(saved["model"])
            self.parts.optimizer.load_state_dict(saved["optimizer"])
            self.step = saved["step"]

    def save(self) -> None:
        states = {"model": self.parts.model.state_dict(), "optimizer": self.parts.optimizer.state_dict()}
        torch.save({**states, "step": self.step}, self.folder / "last.pt.new")
        (self.folder / "last.pt.new").replace(self.folder / "last.pt")

    def train(self) -> None:
        """From where it stands to its end, with a save now and then."""
        while self.step < STEPS:
            time.sleep(PACE_S)
            batch = self.task.fetch(self.order[self.step * BATCH : (self.step + 1) * BATCH], 0)
            self.parts.optimizer.zero_grad(set_to_none=True)
            loss, _ = self.task.loss(self.parts, batch, self.step)
            loss.backward()
            self.parts.optimizer.step()
            self.step += 1
            if self.step % SAVE_EVERY == 0:
                self.save()
        finish(self.folder, self.parts.model)


def finish(folder: Path, model: nn.Module) -> None:
    """The mark of a finished run: the hash of its weights."""
    from unbroken.training.result import weights_sha256

    (folder / "weights.txt").write_text(weights_sha256(model.state_dict()))

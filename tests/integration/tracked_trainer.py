"""A small training with our own loop, tracked as its config says; TEST_SIGNAL as in the other test trainers.

TEST_WAIT=<n>: before the signal, wait until wandb's file has step n, however slow it is.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # these two are imported by each start else, by its first step and by its tracker
import wandb.sdk.launch

import unbroken
from tests.integration.adapters_kit import SignalAt
from tests.integration.wandb_server import stored


def main() -> None:
    assert wandb.run is None
    if os.environ.get("TEST_WITHOUT") == "wandb":
        sys.modules["wandb"] = None  # type: ignore[assignment]
    at = SignalAt()
    with unbroken.run() as run:
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 1))
        optimizer = torch.optim.Adam(model.parameters())
        run.attach(unbroken.Parts(model, optimizer), unbroken.Plan(64, batch_size=8, epochs=1))
        for _ in run.batches():
            loss = model(torch.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if at.left == 1:
                _wait(run.paths.root, os.environ.get("TEST_WAIT", ""))
            at.count()
            run.commit(loss)
        run.complete()


def _wait(run: Path, step: str) -> None:
    deadline = time.monotonic() + 120
    while step and not any(int(step) in steps for _, steps in stored(run)):
        assert time.monotonic() < deadline, "the tracker was not told"
        time.sleep(0.1)


if __name__ == "__main__":
    main()

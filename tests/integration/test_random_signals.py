"""200 signals at random times on one trainer: each leaves a valid checkpoint and one event, and nothing hangs."""

import hashlib
import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.trainers_kit import FULL, SIGNALS, Trainer, attempt, start
from tests.unit.training_kit import differences, events, quiet_process, signal_at
from unbroken.training import preemption

COUNT, SEED = 200, 20240
LONGEST_S = 0.15
"""Long enough for some steps, evaluations and saves; so short that many signals meet the opening and the restore."""
HANG_S = 30.0


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        preemption.install()
        yield


def later(seconds: float, name: str, times: int) -> threading.Timer:
    """Signals to this process from another thread."""

    def send() -> None:
        for _ in range(times):
            os.kill(os.getpid(), getattr(signal, name))

    timer = threading.Timer(seconds, send)
    timer.start()
    return timer


def check_pair(folder: Path) -> int:
    """last.pt is what its sidecar says, loads with weights_only, and its step is returned; no file is left over."""
    last = folder / "checkpoints" / "last.pt"
    sidecar = json.loads(last.with_suffix(".json").read_text())
    assert hashlib.sha256(last.read_bytes()).hexdigest() == sidecar["sha256"]
    content = torch.load(last, weights_only=True)
    assert content["position"]["global_step"] == sidecar["global_step"]
    left = {path.name for path in last.parent.iterdir()} - {"last.pt", "last.json", "previous.pt", "previous.json"}
    assert left == set()
    return int(sidecar["global_step"])


@pytest.mark.slow
def test_200_random_signals(tmp_path: Path) -> None:
    """Some steps after all of them the state equals that of a run which was stopped only there."""
    chance = random.Random(SEED)
    endless = Trainer("endless", FULL.main, {**FULL.config, "epochs": 100_000, "log_every": 5})
    folder, steps = tmp_path / "signalled", [0]
    for number in range(1, COUNT + 1):
        began = time.monotonic()
        preemption.FLAG.clear()
        timer = later(chance.uniform(0, LONGEST_S), chance.choice(SIGNALS), chance.choice((1, 1, 1, 2)))
        assert start(endless, folder) == 42
        timer.join()
        assert time.monotonic() - began < HANG_S
        assert len(events(folder, "graceful_shutdown")) == number
        steps.append(check_pair(folder))
    assert steps == sorted(steps), "never back"
    assert len(set(steps)) > COUNT // 4, "the signals met many places"
    for there in (folder, tmp_path / "once"):
        with signal_at(steps[-1] + 7):
            assert attempt(endless, there) == 42
    signalled, once = (
        torch.load(f / "checkpoints" / "last.pt", weights_only=True) for f in (folder, tmp_path / "once")
    )
    assert differences(once, signalled) == []
    assert (folder / "metrics.csv").read_bytes() == (tmp_path / "once" / "metrics.csv").read_bytes()

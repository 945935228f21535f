"""Starts of a foreign framework's trainer, in a test and inside the trainer."""

import os
import runpy
import signal
from pathlib import Path
from typing import Any

import torch
import yaml

from tests.integration.zygote import ROOT, Zygote
from tests.unit.training_kit import differences

BASE = {"log_every": 1, "checkpoint_interval": 2}


class SignalAt:
    """TEST_SIGNAL=<signal>@<n>: sent to this process at the n-th count of this start."""

    def __init__(self) -> None:
        name, _, number = os.environ.get("TEST_SIGNAL", "").partition("@")
        self.left, self.number = int(number or 0), getattr(signal, name or "SIGTERM")

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


def example(callback: type, hook: str) -> bool:
    """Run the script that TEST_SCRIPT names instead, if it names one; it counts at a hook of the callback."""
    script = os.environ.get("TEST_SCRIPT")
    if not script:
        return False
    at, real = SignalAt(), getattr(callback, hook)

    def counted(self: Any, *args: Any, **values: Any) -> Any:
        at.count()
        return real(self, *args, **values)

    setattr(callback, hook, counted)
    runpy.run_path(str(ROOT / script), run_name="__main__")
    return True


class Runs:
    """Run directories of one framework's test trainer."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.zygote = Zygote(f"tests.integration.{kind}_trainer")
        self._alone: dict[str, dict[str, Any]] = {}

    def start(self, run: Path, config: dict[str, Any] | None = None, signal_at: str = "", **env: str) -> int:
        """One start; its exit code."""
        run.mkdir(exist_ok=True)
        given = run.with_suffix(".yaml")
        given.write_text(yaml.safe_dump({**BASE, **(config or {})}))
        contract = {"UNBROKEN_RUN_DIR": str(run), "UNBROKEN_CONFIG": str(given), "UNBROKEN_SEED": "3"}
        return self.zygote.start(run.with_suffix(".log"), **contract, TEST_SIGNAL=signal_at, **env)

    def interrupted(self, run: Path, config: dict[str, Any], signals: list[str], **env: str) -> list[int]:
        """A start for each signal, the last one over and over until one start ends by itself; all exit codes."""
        codes = []
        for number in range(40):
            codes.append(self.start(run, config, signals[min(number, len(signals) - 1)], **env))
            if codes[-1] not in (42, -9):
                return codes
        raise AssertionError(f"it never finished: {codes}")

    def log(self, run: Path) -> str:
        return run.with_suffix(".log").read_text()

    def outcome(self, run: Path) -> dict[str, Any]:
        """Everything that has to be the same: weights, optimizer, schedule, random states, rows, result."""
        end = run / "end.pt" if (run / "end.pt").exists() else run / "checkpoints" / "last.pt"
        files = {name: (run / name).read_bytes() for name in ("result.json", "metrics.csv")}
        return {**files, "end": torch.load(end, weights_only=True)}

    def changes(self, run: Path, config: dict[str, Any], **env: str) -> list[str]:
        """What differs from a run with the same config that nothing has interrupted."""
        key = repr((config, env))
        if key not in self._alone:
            alone = self.folder / f"alone_{len(self._alone)}"
            assert self.start(alone, config, **env) == 0, self.log(alone)
            self._alone[key] = self.outcome(alone)
        return differences(self._alone[key], self.outcome(run))

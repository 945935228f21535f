"""Starts of a foreign framework's trainer, in a test and inside the trainer."""

import json
import os
import runpy
import signal
from pathlib import Path
from typing import Any

import torch
import yaml

from tests.integration.zygote import ROOT, Zygote
from tests.unit.training_kit import differences, status
from unbroken.collection import load_collection

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

    def check_interrupted(self, run: Path, config: dict[str, Any], signals: list[str]) -> None:
        """It ends by itself, after each signal with that one's exit code, in the bits of a run left alone."""
        codes = self.interrupted(run, config, signals)
        assert codes[-1] == 0 and len(codes) > 2, self.log(run)
        assert codes[:-1] == [-9 if "KILL" in signals[min(i, len(signals) - 1)] else 42 for i in range(len(codes) - 1)]
        assert self.changes(run, config) == []

    def check_recorded(self, run: Path, measure: str) -> None:
        """Status, events and result of a run of 9 steps that is stopped after its second one."""
        assert self.start(run, {}, "SIGUSR1@3") == 42
        stopped = status(run)
        assert (stopped["status"], stopped["exit_code"], stopped["global_step"]) == ("preempted", 42, 2)
        assert self.start(run, {}) == 0
        assert (status(run)["status"], status(run)["global_step"], status(run)["total_steps"]) == ("completed", 9, 9)
        names = [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]
        assert names[:4] == ["run_started", "checkpoint_saved", "graceful_shutdown", "run_started"]
        assert "resumed" in names and names[-1] == "run_completed"
        result = json.loads((run / "result.json").read_text())
        assert result["steps"] == 9 and result["metrics"].keys() == {measure}

    def check_refuses_another_config(self, run: Path) -> None:
        """With 44, and nothing is written."""
        assert self.start(run, {}, "SIGTERM@3") == 42
        before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
        assert self.start(run, {"lr": 1}) == 44
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
        assert "belongs to another run" in self.log(run)

    def check_finished_stays(self, run: Path) -> None:
        """A finished run is not trained again."""
        assert self.start(run) == 0
        result = (run / "result.json").read_bytes()
        assert self.start(run, {}, "SIGKILL@1") == 0
        (run / "result.json").unlink()  # a kill between the last save and the result
        assert self.start(run, {}, "SIGKILL@1") == 0
        assert (run / "result.json").read_bytes() == result

    def check_example(self, run: Path) -> None:
        """The example of this framework is the script of docs/adapters.md, and ends in the same bits."""
        folder = ROOT / "examples" / self.kind
        assert (folder / "train.py").read_text() in (ROOT / "docs" / "adapters.md").read_text()
        assert len(load_collection(folder / f"{self.kind}.yaml")) == 4
        config, script = {"epochs": 1, "hidden": 8, "lr": 0.01}, {"TEST_SCRIPT": f"examples/{self.kind}/train.py"}
        assert self.interrupted(run, config, ["SIGTERM@20", "SIGKILL@30", ""], **script) == [42, -9, 0], self.log(run)
        assert self.changes(run, config, **script) == []

"""The stop flag by itself; tracker, profiler, interval and result: they change no training and stop none."""

import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_kit import CONFIG, differences, outcome, quiet_process, run_toy, signal_at

from unbroken.training import interval, preemption, progress, result
from unbroken.training.parts import Ema


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        yield


def test_the_handlers_come_before_torch() -> None:
    code = "import sys; from unbroken.training import preemption; preemption.install(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_a_signal_during_the_imports_is_kept_c03(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("trainer: consensus\ndata: {source: synthetic_river, days: 40}\nepochs: 1\n")
    code = (
        "import os, signal; from unbroken.training import preemption; preemption.install()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "from unbroken.trainers.consensus.main import main\n"
        "from unbroken.training.command_line import run\n"
        "raise SystemExit(run(main))"
    )
    done = subprocess.run([sys.executable, "-c", code, "--run-dir", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 42, done.stderr
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["saved"] for event in events if event["event"] == "graceful_shutdown"] == [False]


def test_the_first_signal_stays_and_installing_twice_is_once(capfd: pytest.CaptureFixture[str]) -> None:
    flag = preemption.install()
    assert preemption.install() is flag
    for name in ("SIGUSR1", "SIGTERM", "SIGINT"):
        os.kill(os.getpid(), getattr(signal, name))
    assert flag.signal_name == "SIGUSR1"
    assert capfd.readouterr().err == "SIGUSR1 received: saving at the next safe boundary\n"
    with pytest.raises(preemption.StopNow):
        flag.check()


def test_without_graceful_shutdown_a_signal_ends_the_trainer(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with signal_at(2):
            run_toy(tmp_path, enable_graceful_shutdown="no")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


class _Wandb(types.ModuleType):
    """As much of wandb as is used; it can fail in every way."""

    def __init__(self, fail: str = "") -> None:
        super().__init__("wandb")
        self.fail, self.rows, self.ids, self.calls = fail, [], [], []

    def Settings(self, **_: Any) -> None:
        return None

    def init(self, id: str | None, **_: Any) -> Any:
        if self.fail == "init":
            raise ConnectionError("no network")
        self.ids.append(id)
        outer = self

        class Run:
            id = "abc123"

            def log(self, values: dict[str, Any], step: int, commit: bool) -> None:
                if outer.fail == "log":
                    raise ConnectionError("gone")
                outer.rows.append(step)

            def mark_preempting(self) -> None:
                outer.calls.append("preempting")

            def finish(self, **_: Any) -> None:
                outer.calls.append("finish")

        return Run()


def test_one_tracker_run_over_all_attempts_with_growing_steps_c26(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = _Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    with signal_at(3):
        assert run_toy(tmp_path, tracking={"wandb": {"project": "p"}}) == 42
    assert run_toy(tmp_path, tracking={"wandb": {"project": "p"}}) == 0
    assert wandb.ids == [None, "abc123"]
    assert (tmp_path / "wandb_run_id.txt").read_text() == "abc123\n"
    assert wandb.rows == [1, 2, 3, 4, 5, 6]
    assert wandb.calls == ["preempting", "finish", "finish"]


@pytest.mark.parametrize("fail", ["init", "log", "missing"])
def test_a_tracker_that_fails_changes_nothing(tmp_path: Path, fail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None if fail == "missing" else _Wandb(fail))
    assert run_toy(tmp_path / "a", tracking={"wandb": {"project": "p"}}) == 0
    assert run_toy(tmp_path / "b") == 0
    assert differences(outcome(tmp_path / "a"), outcome(tmp_path / "b")) == []


@pytest.mark.filterwarnings("ignore:.*")
def test_a_profile_changes_no_result(tmp_path: Path) -> None:
    options = {"wait": 1, "warmup": 1, "active": 2, "stacks": True, "rows": 10_000}  # frames come before operations
    assert run_toy(tmp_path / "a", profiling=options) == 0
    assert run_toy(tmp_path / "b") == 0
    assert differences(outcome(tmp_path / "a"), outcome(tmp_path / "b")) == []
    trace = json.loads((tmp_path / "a/profile/trace-1.json").read_text())
    assert any("aten::" in str(event.get("name")) for event in trace["traceEvents"])
    assert "aten::" in (tmp_path / "a/profile/table-1.txt").read_text()
    assert not (tmp_path / "b/profile").exists()


def test_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    every = interval.Interval(3)
    assert [step for step in range(10) if every.due(step)] == [3, 6, 9]
    assert not any(interval.Interval(0).due(step) for step in range(100))
    assert [step for step in range(10) if interval.Interval(0, keep_every=4).due(step)] == [4, 8]
    clock = [0.0]
    monkeypatch.setattr(interval.time, "monotonic", lambda: clock[0])
    monkeypatch.setenv("UNBROKEN_MTBF_SECONDS", "7200")
    auto = interval.Interval("auto")
    auto.saved(1.0, 1.0)
    clock[0] = 119.0  # sqrt(2 * 1 s * 7200 s) = 120 s
    assert not auto.due(1)
    clock[0] = 120.0
    assert auto.due(1)


def test_auto_interval_changes_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "AT_LEAST_S", 0.0)
    monkeypatch.setenv("UNBROKEN_MTBF_SECONDS", "1e-9")
    assert run_toy(tmp_path / "a", checkpoint_interval="auto") == 0
    assert run_toy(tmp_path / "b", {**CONFIG, "checkpoint_interval": 0}) == 0
    assert differences(outcome(tmp_path / "a"), outcome(tmp_path / "b")) == []


def test_result_values() -> None:
    cleaned = result.clean({"b": float("nan"), "a": [np.float64(0.1), torch.tensor(2)], 3: {"x": np.int64(1)}})
    assert json.dumps(cleaned) == '{"3": {"x": 1}, "a": [0.1, 2], "b": null}'
    one = result.weights_sha256({"w": torch.zeros(2, 3), "n": torch.tensor(1)})
    assert one == result.weights_sha256({"n": torch.tensor(1), "w": torch.zeros(2, 3)})
    assert one != result.weights_sha256({"n": torch.tensor(1), "w": torch.zeros(3, 2)})


def test_the_average_counts_its_updates_c21() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, 1.0)
    ema = Ema(model, 0.5)
    torch.nn.init.constant_(model.weight, 2.0)
    ema.update(model)
    assert ema.shadow["weight"].item() == pytest.approx(2 - 2 / 11)
    again = Ema(model, 0.1)
    again.load_state_dict(ema.state_dict())
    assert (again.updates, again.decay, again.shadow["weight"].item()) == (1, 0.5, ema.shadow["weight"].item())


def test_plain_stamped_lines_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    shown = progress.Progress(10, 0)
    shown.show(1, 0, 0.5)
    shown.show(2, 0, 0.4)
    shown.show(10, 1, None, force=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "step 1/10 epoch 0 loss 0.5 " in lines[0] and "\r" not in "".join(lines)

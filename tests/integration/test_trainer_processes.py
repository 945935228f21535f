"""The built-in trainers as real processes: signals, kills, workers that stay behind, and the flags used by hand."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.launcher_kit import SOURCE, wait_for
from tests.integration.trainers_kit import CONSENSUS, DISENTANGLED, FULL, PLAIN, Trainer, attempt
from tests.unit.training_kit import differences, events, outcome, quiet_process, status
from unbroken.training.order import epoch_order

ENVIRONMENT = {"PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "ignore"}


def scaled(trainer: Trainer, epochs: int = 40) -> Trainer:
    """Long enough for a signal from outside to meet its middle."""
    return Trainer(trainer.name, trainer.main, {**trainer.config, "epochs": epochs, "log_every": 1})


def begin(trainer: Trainer, folder: Path, *options: str, program: list[str] | None = None, **changes: Any) -> Any:
    config = trainer.write_config(folder, **changes)
    command = program or [sys.executable, "-m", trainer.module]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("UNBROKEN_")}
    with open(folder / "log", "a") as log:
        return subprocess.Popen(
            [*command, "--config", str(config), "--run-dir", str(folder), *options],
            env={**environment, **ENVIRONMENT}, start_new_session=True, stdout=log, stderr=log,
        )  # fmt: skip


def rows(folder: Path) -> int:
    path = folder / "metrics.csv"
    return len(path.read_text().splitlines()) - 1 if path.exists() else 0


def group(leader: int) -> list[int]:
    """The processes of a session that are there and no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def assert_gone(leader: int, seconds: float = 20.0) -> None:
    wait_for(lambda: not group(leader), f"the end of every process of session {leader}", seconds)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A temporary folder whose name is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", [PLAIN, FULL, DISENTANGLED, CONSENSUS], ids=str)
def test_a_signal_to_the_whole_step(
    tmp_path: Path, trainer: Trainer, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Slurm does it: trainer and workers get it. The workers stay, the trainer saves, nobody and nothing is left."""
    monkeypatch.setenv("TMPDIR", str(short_folder))
    long = scaled(trainer)
    run = begin(long, tmp_path / "run", num_workers=2)
    wait_for(lambda: rows(tmp_path / "run") >= 4, "some steps")
    assert len(group(run.pid)) >= 2, "there are workers"
    os.killpg(run.pid, signal.SIGTERM)
    os.killpg(run.pid, signal.SIGUSR1)
    assert run.wait(120) == 42
    assert_gone(run.pid)
    assert [path for kind in ("pymp-*", "ub*") for path in short_folder.glob(kind)] == [], "sockets of killed workers"
    assert [event["signal"] for event in events(tmp_path / "run", "graceful_shutdown")] in (["SIGTERM"], ["SIGUSR1"])
    assert 0 < status(tmp_path / "run")["global_step"] < 40 * long.per_epoch
    with quiet_process():
        assert attempt(long, tmp_path / "run", num_workers=0) == 0
        assert attempt(long, tmp_path / "whole") == 0
    assert differences(outcome(tmp_path / "whole"), outcome(tmp_path / "run")) == []


@pytest.mark.slow
def test_workers_die_with_a_killed_trainer(tmp_path: Path) -> None:
    run = begin(scaled(PLAIN, 5000), tmp_path, num_workers=2)
    wait_for(lambda: rows(tmp_path) >= 2 and len(group(run.pid)) >= 3, "workers")
    run.kill()
    run.wait(120)
    assert_gone(run.pid)


SLOW_WORKERS = """
import time
from unbroken.training import preemption
preemption.install()
from unbroken.trainers.entangled import main, trainer
fetch, loss = trainer.EntangledTask.fetch, trainer.EntangledTask.loss
def slow_fetch(self, records, epoch):
    if RECORD in records.tolist():
        time.sleep(300)
    return fetch(self, records, epoch)
def slow_loss(self, parts, batch, step):
    if step == 8:
        time.sleep(3)
    return loss(self, parts, batch, step)
trainer.EntangledTask.fetch, trainer.EntangledTask.loss = slow_fetch, slow_loss
main.main()
"""
"""A worker sleeps in the fetch of one record; the step before it takes a while."""


@pytest.mark.slow
def test_shielded_workers_do_not_keep_the_process_from_ending_c02(tmp_path: Path) -> None:
    """The workers fetch ahead: one of them sleeps in a fetch when the trainer wants to end."""
    data = {**PLAIN.config["data"], "records": 60}
    trainer = Trainer("one_epoch", PLAIN.main, {**PLAIN.config, "epochs": 1, "data": data})
    record = int(epoch_order(int(trainer.config["seed"]), 0, 60)[44])  # in effective batch 11, fetched during 8
    program = [sys.executable, "-c", SLOW_WORKERS.replace("RECORD", str(record))]
    run = begin(trainer, tmp_path, program=program, num_workers=2)
    wait_for(lambda: rows(tmp_path) >= 8, "the step before the long one")
    time.sleep(0.5)
    run.terminate()
    assert run.wait(120) == 42, "a worker sleeps for 300 s"
    assert_gone(run.pid)
    assert status(tmp_path)["global_step"] == 9


def test_by_hand_flags(tmp_path: Path) -> None:
    """--resume-from, --no-auto-resume, --checkpoint-interval and --seed, in one process."""
    with quiet_process():
        assert attempt(PLAIN, tmp_path / "a", "--checkpoint-interval", "1", "--seed", "9", keep_last=5) == 0
        saved = [event["global_step"] for event in events(tmp_path / "a", "checkpoint_saved")]
        assert sorted(set(saved)) == [1, 2, 3, 4, 5, 6]
        assert status(tmp_path / "a")["status"] == "completed"
        source = tmp_path / "a" / "checkpoints" / "step_000000000005.pt"
        assert attempt(PLAIN, tmp_path / "b", "--resume-from", str(source), "--seed", "9") == 0
        assert events(tmp_path / "b", "resumed")[0]["global_step"] == 5
        assert (tmp_path / "a" / "result.json").read_bytes() == (tmp_path / "b" / "result.json").read_bytes()
        (tmp_path / "b" / "result.json").unlink()
        assert attempt(PLAIN, tmp_path / "b", "--no-auto-resume", "--seed", "9") == 0
        assert len(events(tmp_path / "b", "resumed")) == 1
        assert (tmp_path / "a" / "result.json").read_bytes() == (tmp_path / "b" / "result.json").read_bytes()


@pytest.mark.slow
def test_a_mistake_is_one_sentence(tmp_path: Path) -> None:
    run = begin(PLAIN, tmp_path, widht=4)
    assert run.wait(120) == 1
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert last == "CollectionError: widht is not a key that this trainer knows; did you mean width?"

"""The consensus trainer, in real processes with real signals: the same bytes as a run that nobody disturbed."""

import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch

from unbroken.collection.run_dir import RunPaths
from unbroken.trainers.consensus.main import main
from unbroken.training import preemption
from unbroken.training.checkpoint import CheckpointStore
from unbroken.training.session import Session

CONFIG = """trainer: consensus
data: {source: synthetic_river, basins: 2, days: 60, seed: 7}
epochs: 2
batch_size: 16
accumulation: 2
lr: 0.01
hidden: 8
dropout: 0.2
input_noise: 0.05
schedule: cosine
ema_decay: 0.9
seed: 1
checkpoint_interval: 2
log_every: 1
"""
STEPS = 6
"""80 training days, 32 an effective batch: 3 an epoch."""
STARTED: list[subprocess.Popen[str]] = []
SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT")

# Runs the trainer; before step HOLD_AT it says so and waits for its signal, so that no test depends on time.
HOLDING = """
import os, signal, sys
from unbroken.training import preemption
preemption.install()
from unbroken.training.session import Session
real = Session.commit
def commit(self, *args, **values):
    if self.global_step + 1 == int(os.environ.get("HOLD_AT", "-1")) and int(os.environ.get("RANK", "0")) == 0:
        print("holding", flush=True)
        while not preemption.FLAG.requested and "HOLD_FOR_EVER" not in os.environ:
            signal.pause()
        signal.pause() if "HOLD_FOR_EVER" in os.environ else None
    here = os.environ.get("RANK") == os.environ.get("SELF_RANK")
    if here and self.global_step + 1 == int(os.environ.get("SELF_AT", "-1")):
        os.kill(os.getpid(), signal.SIGUSR1)
    real(self, *args, **values)
Session.commit = commit
from unbroken.trainers.consensus.main import main
from unbroken.training.command_line import run
raise SystemExit(run(main))
"""


def new_run(folder: Path, config: str = CONFIG) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config)
    return folder


def outcome(folder: Path) -> dict[str, Any]:
    names = ("result.json", "metrics.csv", "predictions.csv", "skill.csv")
    return {name: (folder / name).read_bytes() for name in names}


def states(folder: Path) -> dict[str, Any]:
    return torch.load(RunPaths(folder).last, weights_only=True)


def equal(one: Any, other: Any) -> bool:
    """Equal bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(itertools.starmap(equal, zip(one, other, strict=True)))
    return bool(one == other)


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = RunPaths(folder).events.read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["event"] == name]


@pytest.fixture(autouse=True)
def _process() -> Any:
    handlers = {number: signal.getsignal(number) for number in preemption.SIGNALS}
    threads = torch.get_num_threads()
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    preemption.FLAG.clear()
    torch.set_num_threads(threads)


def train_here(folder: Path, *options: str) -> int:
    """One attempt in this process."""
    preemption.FLAG.clear()
    try:
        main(["--run-dir", str(folder), *options])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def start(folder: Path, *options: str, code: str | None = None, **variables: str) -> subprocess.Popen[str]:
    """One attempt in a process of its own."""
    command = [sys.executable, *(["-c", code] if code else ["-m", "unbroken.trainers.consensus"])]
    environment = {**os.environ, **variables, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--run-dir", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    STARTED.append(process)
    return process


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"the trainer ended without saying {word}")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = new_run(tmp_path_factory.mktemp("undisturbed") / "run")
    process = start(folder)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return folder


def assert_same(folder: Path, undisturbed: Path) -> None:
    assert outcome(folder) == outcome(undisturbed)
    assert equal(states(folder), states(undisturbed))


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A real signal to this process in the effective batch ``step``."""
    at: dict[str, Any] = {"step": 0, "signal": "SIGTERM"}
    real = Session.commit

    def commit(self: Session, *args: Any, **values: Any) -> None:
        if self.global_step + 1 == at["step"]:
            os.kill(os.getpid(), getattr(signal, at["signal"]))
        real(self, *args, **values)

    monkeypatch.setattr(Session, "commit", commit)
    return at


@pytest.mark.parametrize(("name", "workers"), [("SIGTERM", 0), ("SIGUSR1", 2), ("SIGUSR2", 0), ("SIGINT", 0)])
def test_one_run_stopped_in_every_effective_batch(
    tmp_path: Path, undisturbed: Path, name: str, workers: int, stop_at: dict[str, Any]
) -> None:
    folder = new_run(tmp_path / "all", CONFIG + f"num_workers: {workers}\n")
    stop_at["signal"] = name
    for step in range(1, STEPS + 1):
        stop_at["step"] = step
        assert train_here(folder) == 42
    assert train_here(folder) == 0
    assert_same(folder, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_matrix(tmp_path: Path, undisturbed: Path, step: int, name: str, workers: int, stop_at: dict[str, Any]) -> None:
    folder = new_run(tmp_path / "run", CONFIG + f"num_workers: {workers}\n")
    stop_at.update(step=step, signal=name)
    assert train_here(folder) == 42
    assert train_here(folder) == 0
    assert_same(folder, undisturbed)


@pytest.mark.parametrize(("name", "hold"), [("SIGTERM", 3), ("SIGINT", 4)])
def test_real_processes_and_signals(tmp_path: Path, undisturbed: Path, name: str, hold: int) -> None:
    folder = new_run(tmp_path / "run")
    process = start(folder, code=HOLDING, HOLD_AT=str(hold))
    wait_for(process, "holding")
    process.send_signal(getattr(signal, name))
    process.send_signal(getattr(signal, name))
    assert process.wait(120) == 42
    assert len(events(folder, "graceful_shutdown")) == 1
    second = start(folder)
    output, _ = second.communicate(timeout=120)
    assert second.returncode == 0
    assert f"resumed from checkpoint: global_step={hold} " in output
    assert_same(folder, undisturbed)


def test_sigkill_with_workers_leaves_no_process_behind_c02(tmp_path: Path, undisturbed: Path) -> None:
    folder = new_run(tmp_path / "run", CONFIG + "num_workers: 2\n")
    process = start(folder, code=HOLDING, HOLD_AT="4", HOLD_FOR_EVER="1")
    wait_for(process, "holding")
    workers = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert len(workers) == 2
    for worker in workers:
        os.kill(worker, signal.SIGTERM)  # as Slurm signals every process of a step: workers take no notice
    descriptors = [os.pidfd_open(worker) for worker in workers]
    process.kill()
    assert process.wait(120) == -signal.SIGKILL
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 10)[0], "a worker outlived its trainer"
        os.close(descriptor)
    assert start(folder).wait(120) == 0
    assert_same(folder, undisturbed)


def test_a_worker_in_a_long_fetch_does_not_hold_up_the_exit_c02(tmp_path: Path) -> None:
    """Epoch 1 never arrives from the workers: the stop is seen in epoch 0, and they are killed, not waited for."""
    code = HOLDING.replace(
        "from unbroken.trainers.consensus.main import main",
        "from unbroken.trainers.consensus.main import main\n"
        "from unbroken.trainers.consensus.task import ConsensusTask\n"
        "from torch.utils.data import _utils\n"
        "_utils.MP_STATUS_CHECK_INTERVAL = 1000  # how long torch would wait for a worker\n"
        "fetch = ConsensusTask.fetch\n"
        "def slow(self, records, epoch):\n"
        "    slow.calls += 1\n"
        "    signal.pause() if slow.calls == 2 else None\n"
        "    return fetch(self, records, epoch)\n"
        "slow.calls = 0\n"
        "ConsensusTask.fetch = slow",
    )
    folder = new_run(tmp_path / "run", CONFIG + "num_workers: 2\n")
    process = start(folder, code=code, HOLD_AT="1")
    wait_for(process, "holding")
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 42


def test_by_hand_flags(tmp_path: Path, undisturbed: Path) -> None:
    """The second source document's command line: --config --manifest --out --ckpt-dir --resume-from."""
    (tmp_path / "c.yaml").write_text(CONFIG)
    options = ["--config", str(tmp_path / "c.yaml"), "--manifest", str(undisturbed / "data/manifest_train.csv")]
    options += ["--out", str(tmp_path / "out"), "--ckpt-dir", str(tmp_path / "ckpt"), "--checkpoint-interval", "1"]
    preemption.FLAG.clear()
    main(options)
    assert outcome(tmp_path / "out") == outcome(undisturbed)
    assert (tmp_path / "ckpt" / "last.pt").exists() and not (tmp_path / "out" / "checkpoints").exists()


def test_an_error_is_one_message(tmp_path: Path, undisturbed: Path) -> None:
    folder = new_run(tmp_path / "run", CONFIG.replace("hidden: 8", "hidden: -8"))
    process = start(folder)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "CollectionError: hidden is -8; give a whole number of at least 1" in output and "Traceback" not in output
    process = start(undisturbed, "--seed", "9")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 44 and "seed: 1 -> 9" in output


def ranks(folder: Path, port: int, **variables: str) -> list[int]:
    """Both ranks of one attempt; their exit codes."""
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **variables}
    both = [start(folder, code=HOLDING, RANK=str(rank), LOCAL_RANK=str(rank), **common) for rank in (0, 1)]
    ends = [process.communicate(timeout=120)[0] for process in both]
    for end, process in zip(ends, both, strict=True):
        print(f"--- {process.returncode}\n{end}")
    return [process.returncode for process in both]


@pytest.mark.slow
def test_two_ranks_stop_at_one_step_after_a_signal_to_one_of_them_c04_c17_c23(tmp_path: Path) -> None:
    port = 29500 + os.getpid() % 1000
    whole = new_run(tmp_path / "whole")
    assert ranks(whole, port) == [0, 0]
    folder = new_run(tmp_path / "run")
    assert ranks(folder, port + 1, SELF_AT="2", SELF_RANK="1") == [42, 42]
    [event] = events(folder, "graceful_shutdown")
    assert event["global_step"] == 2
    assert len(states(folder)["rng"]) == 2
    code = start(folder)
    output, _ = code.communicate(timeout=120)
    assert code.returncode == 44 and "world_size: 2 -> 1" in output
    assert ranks(folder, port + 2) == [0, 0]
    assert_same(folder, whole)


@pytest.mark.slow
def test_200_random_signals(tmp_path: Path) -> None:
    """At random times: each time a valid checkpoint, no hang, one graceful_shutdown event."""
    choose = random.Random(5)
    config = CONFIG.replace("epochs: 2", "epochs: 100000")
    folder = new_run(tmp_path / "run", config)
    preemption.install()  # the children inherit the handlers: a signal finds them at any time
    for turn in range(1, 201):
        began = choose.uniform(0.0, 0.25)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write_end, b"x")
            os._exit(train_here_in_child(folder))
        descriptor = os.pidfd_open(child)
        os.read(read_end, 1)  # Python drops what arrives before it has finished the fork
        os.close(read_end)
        os.close(write_end)
        time.sleep(began)
        signal.pidfd_send_signal(descriptor, choose.choice(preemption.SIGNALS))
        ended = select.select([descriptor], [], [], 120)[0]
        os.close(descriptor)
        if not ended:
            os.kill(child, signal.SIGABRT)  # faulthandler shows where it hangs
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42, f"turn {turn}, after {began:.3f} s"
        if RunPaths(folder).last.exists():
            found = CheckpointStore(RunPaths(folder)).find()
            assert found is not None and not found.passed_over
        assert len(events(folder, "graceful_shutdown")) == turn


def train_here_in_child(folder: Path) -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        main(["--run-dir", str(folder)])
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 99
    return 0

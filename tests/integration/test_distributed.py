"""Two ranks over gloo: a signal to one is enough, both stop at one step, and the resumed run equals the undisturbed."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.launcher_kit import SOURCE, wait_for
from tests.integration.trainers_kit import FULL, Trainer
from tests.unit.training_kit import differences, events, outcome, status

pytestmark = pytest.mark.slow

EPOCHS = 8
DDP = Trainer(
    "entangled_ddp",
    FULL.main,
    {**FULL.config, "epochs": EPOCHS, "processes": 2, "data": {**FULL.config["data"], "records": 44}},
)
"""44 records in effective batches of 16 (2 ranks x 2 micro-batches x 4): 3 an epoch, the last uneven over the ranks."""


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def begin(folder: Path, ranks: int = 2, **changes: Any) -> list[Any]:
    """One process a rank, as torchrun starts them."""
    config = DDP.write_config(folder, **changes)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("UNBROKEN_")}
    environment |= {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks)}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = []
    for rank in range(ranks):
        with open(folder / f"log_{rank}", "a") as log:
            command = [sys.executable, "-m", DDP.module, "--config", str(config), "--run-dir", str(folder)]
            own = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(command, env=own, stdout=log, stderr=log))
    return processes


def end(processes: list[Any], seconds: float = 180) -> list[int]:
    try:
        return [process.wait(seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()


def steps(folder: Path) -> int:
    path = folder / "metrics.csv"
    return len(path.read_text().splitlines()) - 1 if path.exists() else 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ddp")
    assert end(begin(folder)) == [0, 0]
    return outcome(folder)


@pytest.mark.parametrize(("rank", "name"), [(0, "SIGTERM"), (1, "SIGUSR1")])
def test_a_signal_to_one_rank_only_c04(tmp_path: Path, undisturbed: dict[str, Any], rank: int, name: str) -> None:
    """Both stop at one step; the run goes on in the same bits, with the random states of each rank."""
    processes = begin(tmp_path, num_workers=2 * rank)
    wait_for(lambda: steps(tmp_path) >= 4, "some steps")
    processes[rank].send_signal(getattr(signal, name))
    assert end(processes) == [42, 42]
    assert len(events(tmp_path, "graceful_shutdown")) == 1
    stopped = status(tmp_path)["global_step"]
    assert 4 <= stopped < 3 * EPOCHS
    assert end(begin(tmp_path)) == [0, 0]
    assert differences(undisturbed, outcome(tmp_path)) == []
    states = undisturbed["last.pt"]["rng"]
    assert len(states) == 2 and differences(states[0]["torch"], states[1]["torch"])


def test_under_torchrun(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    config = DDP.write_config(tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", DDP.module,
         "--config", str(config), "--run-dir", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert differences(undisturbed, outcome(tmp_path)) == []


def test_another_world_size_is_refused_or_marked_c23(tmp_path: Path) -> None:
    processes = begin(tmp_path)
    wait_for(lambda: steps(tmp_path) >= 4, "some steps")
    processes[0].terminate()
    assert end(processes) == [42, 42]
    before = (tmp_path / "checkpoints" / "last.pt").read_bytes()
    assert end(begin(tmp_path, ranks=1)) == [44]
    assert "world_size: 2 -> 1" in (tmp_path / "log_0").read_text()
    assert (tmp_path / "checkpoints" / "last.pt").read_bytes() == before
    code = end(begin(tmp_path, ranks=1, allow_world_size_change=True))
    log = (tmp_path / "log_0").read_text()
    assert code == [0], log
    assert status(tmp_path)["exact"] is False and "this resume is inexact: 2 -> 1 processes" in log
    assert json.loads((tmp_path / "result.json").read_text())["steps"] > 0

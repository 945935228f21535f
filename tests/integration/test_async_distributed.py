"""Two ranks, one disk that does not take a save behind the training: both end with 1, none waits for the other."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.launcher_kit import SOURCE
from tests.integration.test_distributed import DDP, begin, end, free_port
from tests.unit.training_kit import differences, events, outcome

pytestmark = pytest.mark.slow


def with_small_files(folder: Path) -> list[subprocess.Popen[bytes]]:
    """As ``begin``, but rank 0 may write no file over 20 kB, which its checkpoints exceed."""
    config = DDP.write_config(folder, checkpoint_interval=1)
    port = str(free_port())
    processes = []
    for rank in range(2):
        environment = {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "RANK": str(rank)}
        environment |= {"LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PATH": "/usr/bin"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"}  # else the limit cuts .pyc files short, and Python keeps them
        limit = (20_000, 20_000) if rank == 0 else resource.getrlimit(resource.RLIMIT_FSIZE)
        command = [sys.executable, "-m", DDP.module, "--config", str(config), "--run-dir", str(folder)]
        with open(folder / f"log_{rank}", "a") as log:
            processes.append(
                subprocess.Popen(
                    command, env=environment, stdout=log, stderr=log,
                    preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
                )
            )  # fmt: skip
    return processes


def test_a_failed_save_behind_the_training_ends_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert end(with_small_files(tmp_path / "a")) == [1, 1]
    for rank in range(2):
        assert "cannot save a checkpoint" in (tmp_path / f"a/log_{rank}").read_text()
    assert not (tmp_path / "a/checkpoints/last.pt").exists() and not events(tmp_path / "a", "checkpoint_saved")
    assert end(begin(tmp_path / "a")) == [0, 0]
    (tmp_path / "b").mkdir()
    assert end(begin(tmp_path / "b", async_saves=False)) == [0, 0]
    assert differences(outcome(tmp_path / "a"), outcome(tmp_path / "b")) == []

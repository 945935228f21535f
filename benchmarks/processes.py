"""Start the benchmarks' trainer in a run directory, and read its trace."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]


def start(folder: Path, **config: Any) -> subprocess.Popen[bytes]:
    """The trainer, as a person starts it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "given.yaml").write_text(yaml.safe_dump(config))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("UNBROKEN_", "SLURM_"))}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.trainer", "--config", str(folder / "given.yaml")]
    with open(folder / "log.txt", "a") as log:
        return subprocess.Popen([*command, "--run-dir", str(folder)], env=environment, stdout=log, stderr=log)


def trace(folder: Path) -> list[tuple[int, float]]:
    """(step, time) of each step begun, over all attempts."""
    try:
        lines = (folder / "trace.txt").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [(int(step), float(at)) for step, at in (line.split() for line in lines if " " in line)]


def wait_for_steps(folder: Path, process: subprocess.Popen[bytes], count: int) -> None:
    """Until so many steps were begun, in all attempts; raises where the trainer ends before."""
    while len(trace(folder)) < count:
        if process.poll() is not None:
            raise RuntimeError(f"the trainer ended: {(folder / 'log.txt').read_text()[-500:]}")
        time.sleep(0.002)

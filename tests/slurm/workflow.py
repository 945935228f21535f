"""What the workflow tests on the cluster share: a project whose Snakemake talks to the test cluster."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.slurm.cluster import Cluster
from tests.workflow.project import Project, clean_env

WAIT_S = 120.0
"""Longest wait for an event, seconds: only a hang is that slow."""


def wait_for(event: Callable[[], Any], what: str, timeout: float = WAIT_S) -> Any:
    """Wait until `event` is true and return what it gave."""
    deadline = time.monotonic() + timeout
    while not (value := event()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:g} s for: {what}")
        time.sleep(0.05)
    return value


class SlurmProject(Project):
    """Snakemake under --profile slurm, polling every second."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.processes: list[subprocess.Popen[str]] = []

    def argv(self, *arguments: str) -> list[str]:
        return super().argv("--profile", "slurm", "--seconds-between-status-checks", "1", *arguments)

    def environment(self) -> dict[str, str]:
        return {**clean_env(), **self.cluster.env}

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        process = self.start(*arguments, env=self.environment())
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def finish(self, process: subprocess.Popen[str], timeout: float = WAIT_S) -> int:
        """Snakemake's exit code; a hang fails with its output."""
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            queue = self.cluster.run(["squeue", "-a"]).stdout
            raise AssertionError(f"Snakemake hangs:\n{self.log()}\n{queue}") from None

    def await_(self, event: Callable[[], Any], what: str) -> Any:
        """Wait until `event` is true; fail at once, with Snakemake's output, when Snakemake has ended before."""

        def happened() -> Any:
            ended = self.processes[-1].poll() is not None
            if (value := event()) or not ended:
                return value
            raise AssertionError(f"Snakemake ended before {what}:\n{self.log()}")

        return wait_for(happened, what)

    def one_run(self, slug: str) -> Path:
        """The run directory of a collection with one run, once it is there."""
        return self.await_(lambda: next(iter(self.runs(slug)), None), f"a run of {slug}")

    def holding(self, slug: str, starts: int = 1) -> Path:
        """Wait until the toy of this collection has started so often and holds at its step."""
        run = self.one_run(slug)
        self.await_(lambda: len(starts_of(run)) >= starts, f"{slug} to start {starts} times")
        self.await_((run / "holding").exists, f"{slug} to hold")
        return run


def starts_of(run: Path) -> list[int]:
    """The step at which each start of the toy began."""
    path = run / "starts.txt"
    return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []


def status_of(run: Path) -> dict[str, Any]:
    try:
        return json.loads((run / "run_status.json").read_text())
    except FileNotFoundError:
        return {}


def toy_total(steps: int, seed: int = 0) -> int:
    """What the toy's undisturbed run ends with."""
    total = 0
    for step in range(steps):
        total = total * 31 % 1_000_003 + step + seed
    return total

"""A project folder of its own for a test: our workflow, the test's collections."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "toy_trainer.py"


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


class Project:
    """Our Snakefile, rules and profiles by link; config, runs and results are the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "config" / "collections").mkdir(parents=True)
        for name in ("Snakefile", "workflow", "profiles", "slurm"):
            (folder / name).symlink_to(ROOT / name)
        self.slugs: list[str] = []
        self.processes: list[subprocess.Popen[str]] = []

    def add(self, slug: str, listed: bool = True, **keys: Any) -> None:
        """A collection; a toy by default."""
        collection = {"seeds": 1, **keys}
        if "trainer" not in collection:
            collection.setdefault("command", f"{sys.executable} {TOY}")
        path = self.folder / "config" / "collections" / f"{slug}.yaml"
        path.write_text(yaml.safe_dump(collection, sort_keys=False))
        if listed and slug not in self.slugs:
            self.slugs.append(slug)
        self.write_config()

    def write_config(self, **more: Any) -> None:
        config = {"collections": self.slugs, **more}
        (self.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--nocolor", *arguments]

    def snakemake(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end; stdout and stderr together in `stdout`."""
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.folder,
            env=env or clean_env(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
            check=False,
        )

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start Snakemake in a process group of its own, as a shell does; its output goes to snakemake.log."""
        with open(self.folder / "snakemake.log", "a") as log:
            process = subprocess.Popen(
                self.argv(*arguments),
                cwd=self.folder,
                env=env or clean_env(),
                text=True,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def close(self) -> None:
        """End what a failed test has left: Snakemake, and the launchers with their trainers."""
        for status in (self.folder / "runs").glob("*/*/*/run_status.json"):
            (status.parent / "release").touch()
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def log(self) -> str:
        return (self.folder / "snakemake.log").read_text()

    def runs(self, slug: str) -> list[Path]:
        return sorted((self.folder / "runs" / slug).glob("*/seed_*"))

    def await_(self, event: Callable[[], Any], what: str) -> Any:
        """Wait until `event` is true; fail at once, with Snakemake's output, when Snakemake has ended before."""

        def happened() -> Any:
            ended = not self.processes or self.processes[-1].poll() is not None
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

    def forget(self, slug: str) -> None:
        shutil.rmtree(self.folder / "runs" / slug, ignore_errors=True)


def clean_env() -> dict[str, str]:
    """The environment without what an outer Snakemake or Slurm job would leave in it."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("UNBROKEN_", "SLURM_"))}


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

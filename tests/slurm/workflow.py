"""What the workflow tests on the cluster share: a project whose Snakemake talks to the test cluster."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster, ClusterUnavailable
from tests.workflow.project import WAIT_S, Project, clean_env, status_of


def running(cluster: Cluster) -> Iterator[Cluster]:
    """For fixtures. Where it cannot start, every test that asks for it fails with the one line that says why."""
    try:
        cluster.start()
    except ClusterUnavailable as error:
        pytest.fail(f"no test cluster: {error}", pytrace=False)
    try:
        yield cluster
    finally:
        cluster.stop()


class SlurmProject(Project):
    """Snakemake under --profile slurm, polling every second."""

    poll_s = 1

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.programs = folder / "bin"

    def argv(self, *arguments: str) -> list[str]:
        return super().argv("--profile", "slurm", "--seconds-between-status-checks", str(self.poll_s), *arguments)

    def environment(self) -> dict[str, str]:
        env = {**clean_env(), **self.cluster.env}
        return {**env, "PATH": f"{self.programs}:{env['PATH']}"} if self.programs.exists() else env

    def wrap(self, command: str, body: str) -> Path:
        """Put a shell program before a Slurm command; it ends in the real one unless `body` has exited."""
        real = shutil.which(command, path=self.cluster.env["PATH"])
        self.programs.mkdir(exist_ok=True)
        script = self.programs / command
        script.write_text(f'#!/bin/sh\nhere={self.programs}\n{body}\nexec {real} "$@"\n')
        script.chmod(0o755)
        return script

    def add_held(self, slug: str, extra: str = "", config: dict[str, Any] | None = None, **keys: Any) -> None:
        """A toy of 8 steps that holds at step 4 and saves only when it is told to stop."""
        resources = {"slurm_extra": f"--signal=USR1@60 {extra}".strip(), **keys.pop("resources", {})}
        self.add(
            slug, config={"steps": 8, "hold_at": 4, "save_every": 100, **(config or {})}, resources=resources, **keys
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start(*arguments, env=self.environment())

    def finish(self, process: subprocess.Popen[str], timeout: float = WAIT_S) -> int:
        """Snakemake's exit code; a hang fails with its output."""
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            queue = self.cluster.run(["squeue", "-a"]).stdout
            raise AssertionError(f"Snakemake hangs:\n{self.log()}\n{queue}") from None

    def job(self, slug: str) -> str:
        """The Slurm job that trains the collection's one run, as its status says."""
        return str(status_of(self.one_run(slug))["slurm_job_id"])

    def submitted(self, slug: str) -> str:
        """The job of a collection's one run, as soon as it is in the queue."""
        mark = f"rule_train_{slug}_wildcards_"

        def find() -> str:
            for line in self.cluster.run(["squeue", "-h", "--me", "-o", "%i %Z %k"]).stdout.splitlines():
                job, workdir, comment = line.split(" ", 2)
                if comment.startswith(mark) and Path(workdir).resolve() == self.folder.resolve():
                    return job
            return ""

        return str(self.await_(find, f"the job of {slug} to be in the queue"))

    def said(self, text: str, times: int = 1) -> None:
        """Wait until Snakemake has said this, so often."""
        self.await_(lambda: self.log().count(text) >= times, f"Snakemake to say {text!r}")

    def close(self) -> None:
        """Also cancel what a failed test has left in the queue."""
        super().close()
        for line in self.cluster.run(["squeue", "-h", "--me", "-o", "%i %Z"], check=False).stdout.splitlines():
            job, _, workdir = line.partition(" ")
            if Path(workdir).resolve() == self.folder.resolve():
                self.cluster.run(["scancel", job], check=False)


def events_of(run: Path, name: str) -> list[dict[str, Any]]:
    """The events of this name."""
    path = run / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["event"] == name]


def result_of(run: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((run / "result.json").read_text())
    return value


def programs_without(folder: Path, *names: str) -> Path:
    """A folder for PATH that has every program of the system but these."""
    folder.mkdir(parents=True)
    for place in ("/usr/bin", "/usr/sbin"):
        for program in os.listdir(place):
            if program not in names and not (folder / program).is_symlink():
                (folder / program).symlink_to(f"{place}/{program}")
    return folder

"""Pinned code on a real Slurm: a requeued job, whose batch script Slurm starts by itself, stays in it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, events_of
from tests.workflow.project import TOY, starts_of, status_of

pytestmark = pytest.mark.slurm

SCRIPT = """
import os, runpy
with open(os.environ["UNBROKEN_RUN_DIR"] + "/versions.txt", "a") as file:
    file.write("VERSION\\n")
runpy.run_path({toy!r}, run_name="__main__")
"""


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[SlurmProject]:
    project = SlurmProject(tmp_path, cluster)
    yield project
    project.close()


def write_script(project: SlurmProject, version: str) -> None:
    (project.folder / "train.py").write_text(SCRIPT.format(toy=str(TOY)).replace("VERSION", version))


def test_a_requeued_job_runs_the_code_it_began_with(project: SlurmProject, cluster: Cluster) -> None:
    project.add(
        "pinned",
        command="python train.py",
        config={"steps": 6, "hold_at": 3},
        resources={"slurm_partition": "grace"},
        operational={"job_code_snapshot_enabled": True},
    )
    write_script(project, "one")
    (project.folder / ".gitignore").write_text("/runs/\n/results/\n.snakemake/\n*.log\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=project.folder, check=True)
    snakemake = project.begin()
    run = project.holding("pinned")
    write_script(project, "two")
    cluster.preempt(status_of(run)["slurm_job_id"])
    project.holding("pinned", starts=2)
    (run / "release").touch()
    assert project.finish(snakemake) == 0, project.log()
    assert (run / "versions.txt").read_text().split() == ["one", "one"] and starts_of(run) == [0, 3]
    assert status_of(run)["restart_count"] == 1 and not events_of(run, "code_changed")
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=project.folder, text=True, capture_output=True, check=True
    )
    assert len(worktrees.stdout.splitlines()) == 1  # finished: pruned

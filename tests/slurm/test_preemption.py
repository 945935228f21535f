"""Runs that Slurm interrupts, under `snakemake --profile slurm`, on the real cluster."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject
from tests.workflow.project import starts_of, status_of, toy_total

pytestmark = pytest.mark.slurm

PARTITIONS = ("grace", "nograce", "cancel")


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Iterator[SlurmProject]:
    project = SlurmProject(tmp_path, cluster)
    yield project
    project.close()


def result_total(run: Path) -> int:
    return int(json.loads((run / "result.json").read_text())["total"])


def test_preempted_and_killed_runs_go_on(project: SlurmProject, cluster: Cluster) -> None:
    for index, partition in enumerate(PARTITIONS):
        resources = {"slurm_partition": partition, "slurm_extra": f"--nodelist={cluster.nodes[index]} --signal=USR1@60"}
        project.add(f"on-{partition}", config={"steps": 8, "hold_at": 4, "save_every": 100}, resources=resources)
    shot_on = f"--nodelist={cluster.nodes[3]}"
    project.add_held("shot", shot_on, config={"hold_at": 5, "save_every": 2})
    snakemake = project.begin()
    shot = project.holding("shot")
    runs = [project.holding(f"on-{partition}") for partition in PARTITIONS]
    for run in runs:
        cluster.preempt(status_of(run)["slurm_job_id"])
    os.kill(int((shot / "starts.txt").read_text().split()[0]), signal.SIGKILL)
    project.holding("shot", starts=2)
    (shot / "release").touch()
    for partition, run in zip(PARTITIONS, runs, strict=True):
        project.holding(f"on-{partition}", starts=2)
        (run / "release").touch()
    assert project.finish(snakemake) == 0, project.log()
    for run in runs:
        assert starts_of(run) == [0, 4]  # nothing was replayed: save_every is far away, the warning saved step 4
        assert result_total(run) == toy_total(8)
        status = status_of(run)
        assert (status["status"], status["attempt"], status["resubmit_count"]) == ("completed", 2, 1)
        assert status["restart_count"] == 1  # the same job, requeued
    assert project.log().count("Trying to restart") == 1  # the one that was shot; no other has cost a retry
    assert starts_of(shot) == [0, 4]  # it went on from the last interval checkpoint
    assert result_total(shot) == toy_total(8)


def test_c10_a_cancelled_run_stays_cancelled_and_the_others_go_on(project: SlurmProject, cluster: Cluster) -> None:
    project.add("unwanted", config={"steps": 8, "hold_at": 4})
    project.add("wanted", config={"steps": 8, "hold_at": 4})
    snakemake = project.begin()
    unwanted, wanted = project.holding("unwanted"), project.holding("wanted")
    cluster.cancel(status_of(unwanted)["slurm_job_id"])
    project.await_(lambda: "cancelled by a person" in project.log(), "Snakemake to say so")
    assert status_of(unwanted)["status"] == "preempted"
    (wanted / "release").touch()
    assert project.finish(snakemake) != 0
    assert result_total(wanted) == toy_total(8)
    assert starts_of(unwanted) == [0]  # not brought back
    (unwanted / "release").touch()
    assert project.finish(project.begin()) == 0, project.log()  # a new call goes on with it
    assert starts_of(unwanted) == [0, 4]
    assert result_total(unwanted) == toy_total(8)

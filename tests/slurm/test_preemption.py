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


def test_preempted_runs_are_requeued_and_finish(project: SlurmProject, cluster: Cluster) -> None:
    for index, partition in enumerate(PARTITIONS):
        resources = {"slurm_partition": partition, "slurm_extra": f"--nodelist={cluster.nodes[index]} --signal=USR1@60"}
        project.add(f"on-{partition}", config={"steps": 8, "hold_at": 4, "save_every": 100}, resources=resources)
    snakemake = project.begin()
    runs = [project.holding(f"on-{partition}") for partition in PARTITIONS]
    for run in runs:
        cluster.preempt(status_of(run)["slurm_job_id"])
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
    assert "Trying to restart" not in project.log()  # no retry of Snakemake was spent


def test_a_run_at_its_time_limit_is_warned_saved_and_finishes(project: SlurmProject) -> None:
    resources = {"slurm_partition": "short", "runtime": 1, "slurm_extra": "--signal=USR1@30"}
    project.add("limited", config={"steps": 8, "hold_at": 4, "save_every": 100}, resources=resources)
    snakemake = project.begin()
    run = project.holding("limited", starts=2)
    (run / "release").touch()
    assert project.finish(snakemake) == 0, project.log()
    assert starts_of(run) == [0, 4]
    assert result_total(run) == toy_total(8)
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert any("USR1" in str(event) for event in events)


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


def test_a_crash_is_trained_once_and_named(project: SlurmProject) -> None:
    project.add("crashing", config={"steps": 8, "crash_at": 3})
    assert project.finish(project.begin()) != 0
    run = project.one_run("crashing")
    assert starts_of(run) == [0]
    log = project.log()
    assert "crashing" in log and "ValueError: loss is nan at step 3" in log and "attempt_1.log" in log
    assert "Trying to restart" not in log


def test_a_killed_trainer_goes_on_from_its_last_checkpoint(project: SlurmProject) -> None:
    project.add("shot", config={"steps": 8, "hold_at": 5, "save_every": 2})
    snakemake = project.begin()
    run = project.holding("shot")
    os.kill(int((run / "starts.txt").read_text().split()[0]), signal.SIGKILL)
    project.holding("shot", starts=2)
    (run / "release").touch()
    assert project.finish(snakemake) == 0, project.log()
    assert starts_of(run) == [0, 4]  # the last interval checkpoint
    assert result_total(run) == toy_total(8)


def test_the_controller_dies_and_a_new_call_waits_for_its_jobs(project: SlurmProject) -> None:
    project.add("orphan", config={"steps": 8, "hold_at": 4})
    first = project.begin()
    run = project.holding("orphan")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    project.snakemake("--unlock", env=project.environment())
    second = project.begin()
    project.await_(lambda: "of an earlier call is still there" in project.log(), "the new call to find the job")
    (run / "release").touch()
    assert project.finish(second) == 0, project.log()
    assert starts_of(run) == [0]
    assert result_total(run) == toy_total(8)

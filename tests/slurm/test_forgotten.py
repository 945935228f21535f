"""Jobs that Slurm alone would leave lying.

The controller dies and forgets what it took last, jobs that run and jobs that wait, and gives their numbers again. It
holds a job after a fault of its node. It calls running what gives no sign of life any more.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, result_of, running
from tests.workflow.project import ROOT, starts_of, status_of, toy_total, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
GONE = "Slurm does not know the job any more, and it has not begun: submitted again"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One of their own: numbers that come twice would puzzle other tests."""
    yield from running(Cluster(node_count=2))


@pytest.mark.parametrize("knows", ["what was before", "nothing"])
def test_forgotten_jobs_are_submitted_again(tmp_path: Path, cluster: Cluster, knows: str) -> None:
    project = SlurmProject(tmp_path, cluster)
    project.add_held("trains", config={"save_every": 2})
    project.add_held("waits", "--hold", config={"hold_at": -1})
    kept = cluster.keep_state() if knows == "what was before" else None
    other = ""
    try:
        snakemake = project.begin()
        project.holding("trains")
        jobs = {project.job("trains"), project.submitted("waits")}
        cluster.lose_state(kept)
        other = cluster.sbatch("true", "--begin=now+1hour")
        if kept:
            assert other in jobs  # somebody else has a number that was ours
        project.said(GONE)
        cluster.run(["scontrol", "release", project.submitted("waits")])
        (project.holding("trains", starts=2) / "release").touch()
        assert project.finish(snakemake) == 0, project.log()
        assert cluster.state(other) == "PENDING"
    finally:
        project.close()
        if other:
            cluster.cancel(other)
        cluster.resume_drained()  # a node drains itself when it gets a number that it still trains
    assert project.log().count(GONE) == 1
    assert "Trying to restart" not in project.log()  # no retry was spent
    assert starts_of(project.one_run("trains")) == [0, 4]
    assert starts_of(project.one_run("waits")) == [0]
    for slug in project.slugs:
        assert result_of(project.one_run(slug))["total"] == toy_total(8)


def test_why_says_that_a_job_is_forgotten(tmp_path: Path, cluster: Cluster) -> None:
    SlurmProject(tmp_path, cluster).add("any")
    kept = cluster.keep_state()
    job = cluster.sbatch("sleep 3600", "--hold")
    wait_for(lambda: "PENDING" in [row["State"] for row in cluster.sacct(job)], "accounting to know the job")
    cluster.lose_state(kept)
    why = [sys.executable, "-m", "unbroken.cli", "why", job, "--json"]
    verdict = json.loads(cluster.run(why, cwd=tmp_path, env={"PYTHONPATH": str(ROOT / "src")}).stdout)
    assert verdict["kind"] == "unknown" and "accounting does not say how it ended" in verdict["sentence"]
    assert f"controller: it has lost job {job}, as when it dies before it has saved its state" in verdict["evidence"]


def test_a_job_whose_node_could_not_start_it_is_released(tmp_path: Path) -> None:
    """The classic of a long night: a node's prolog fails, Slurm drains the node and holds the job."""
    failing = tmp_path / "failing"
    failing.touch()
    prolog = tmp_path / "prolog"
    prolog.write_text(f"#!/bin/sh\n! rm {failing} 2>/dev/null\n")
    prolog.chmod(0o755)
    (tmp_path / "project").mkdir()
    with Cluster(node_count=2, accounting=False, options={"Prolog": str(prolog)}) as cluster:
        project = SlurmProject(tmp_path / "project", cluster)
        project.add("unlucky", config={"steps": 8})
        try:
            assert project.finish(project.begin()) == 0, project.log()
        finally:
            project.close()
        assert len(cluster.resume_drained()) == 1
    assert project.log().count("Slurm holds it because its node could not start it") == 1
    assert starts_of(project.one_run("unlucky")) == [0]


class Watchful(SlurmProject):
    """Does not wait ten minutes for a sign of life."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "UNBROKEN_SILENCE_SECONDS": "12", "UNBROKEN_HEARTBEAT_SECONDS": "0.5"}


def test_a_running_job_without_a_sign_of_life_is_replaced(tmp_path: Path, cluster: Cluster) -> None:
    """As on a node that hangs, or that the controller takes for busy although the job has ended."""
    project = Watchful(tmp_path, cluster)
    project.add_held("frozen", config={"save_every": 2})
    try:
        snakemake = project.begin()
        run = project.holding("frozen")
        before = project.job("frozen")
        os.kill(status_of(run)["pid"], signal.SIGSTOP)
        project.said("has given no sign of life for")
        (project.holding("frozen", starts=2) / "release").touch()
        assert project.finish(snakemake) == 0, project.log()
    finally:
        project.close()
    ends = [row["State"] for row in cluster.sacct(before) if row["JobID"] == before]
    assert ends[-1].startswith("CANCELLED by"), ends
    assert project.log().count("it is cancelled: submitted again") == 1
    assert "Trying to restart" not in project.log()
    assert starts_of(run) == [0, 4]
    assert result_of(run)["total"] == toy_total(8)


def test_a_node_that_slurm_gives_up_is_no_cancellation(tmp_path: Path, cluster: Cluster) -> None:
    """Where only the way to the node is broken, or an administrator takes it down, the trainer is warned."""
    project = SlurmProject(tmp_path, cluster)
    project.add_held("downed", f"--no-requeue --nodelist={cluster.nodes[0]}")
    try:
        snakemake = project.begin()
        run = project.holding("downed")
        cluster.run(["scontrol", "update", f"NodeName={cluster.nodes[0]}", "State=DOWN", "Reason=test"])
        project.said("submitted again, it goes on from its last checkpoint")
        # It may be back by itself already (ReturnToService).
        cluster.run(["scontrol", "update", f"NodeName={cluster.nodes[0]}", "State=RESUME"], check=False)
        (project.holding("downed", starts=2) / "release").touch()
        assert project.finish(snakemake) == 0, project.log()
    finally:
        project.close()
    assert "Slurm says NODE_FAIL and does not queue it again" in project.log()
    assert "gave its node up" in (run / "logs" / "attempt_1.log").read_text()
    assert starts_of(run) == [0, 4]

"""The controlling Snakemake dies, is interrupted, is told to end; runs are in the queue and running meanwhile."""

import os
import signal
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, result_of
from tests.workflow.project import starts_of, status_of, toy_total

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_sigkill_then_ctrl_c_then_sigterm(tmp_path: Path, cluster: Cluster) -> None:
    """Four calls of the same command; whatever became of the one before, nothing is trained twice."""
    project = SlurmProject(tmp_path, cluster)
    for slug in ("first", "second"):
        project.add_held(slug, f"--nodelist={cluster.nodes[0]}", resources={"cpus_per_task": 4})
    # The node is full when their time comes: these wait in the queue.
    for slug in ("third", "fourth"):
        project.add_held(slug, f"--nodelist={cluster.nodes[0]} --begin=now+30", resources={"cpus_per_task": 4})
    try:
        _four_calls(project, cluster)
    finally:
        project.close()


def _four_calls(project: SlurmProject, cluster: Cluster) -> None:
    killed = project.begin()
    jobs = {slug: project.submitted(slug) for slug in project.slugs}
    trained = project.await_(
        lambda: (
            len(found := [r for s in project.slugs for r in project.runs(s) if (r / "holding").exists()]) == 2 and found
        ),
        "two runs to hold",
    )
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    project.snakemake("--unlock", env=project.environment())

    # Adopts the two that run and the two that wait; Ctrl-C then cancels all four, and the two save.
    interrupted = project.begin()
    project.said("of an earlier call is still there", times=4)
    assert {project.submitted(slug) for slug in jobs} == set(jobs.values())
    os.kill(interrupted.pid, signal.SIGINT)
    assert project.finish(interrupted) != 0
    for run in trained:
        assert (status_of(run)["status"], status_of(run)["reason"][:21]) == ("preempted", "cancelled by a person")
        (run / "holding").unlink()
    for job in jobs.values():
        cluster.wait_state(job, "CANCELLED")

    # Goes on from what they have saved; SIGTERM lets the jobs end and starts nothing else.
    ended = project.begin()
    for run in trained:
        project.await_(lambda run=run: len(starts_of(run)) == 2 and (run / "holding").exists(), "the second start")
    os.kill(ended.pid, signal.SIGTERM)
    project.said("Will exit after finishing currently running jobs")
    for run in trained:  # their end makes place for the other two
        (run / "release").touch()
    for slug in project.slugs:
        (project.one_run(slug) / "release").touch()
    project.finish(ended)
    assert len(list(project.folder.glob("runs/*/*/*/result.json"))) == 4

    assert project.finish(project.begin()) == 0, project.log()
    for slug in project.slugs:
        run = project.one_run(slug)
        assert starts_of(run) == ([0, 4] if run in trained else [0])
        assert result_of(run)["total"] == toy_total(8)

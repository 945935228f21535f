"""The time limit, with Slurm's warning and without; a save that does not fit; a save of five seconds."""

import json
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import KILL_WAIT_S, Cluster
from tests.slurm.workflow import SlurmProject, events_of, result_of
from tests.workflow.project import TOY, starts_of, status_of, toy_total

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

WRAPPED = f"bash -c 'trap : TERM USR1; {sys.executable} {TOY} & wait; exit $?'"
"""c07: its `wait` ends at the signal, with 143, while the trainer still saves."""


def test_time_limits_and_slow_saves(tmp_path: Path, cluster: Cluster) -> None:
    """One call; every run is interrupted once and loses nothing."""
    project = SlurmProject(tmp_path, cluster)
    on = [f"--nodelist={node}" for node in cluster.nodes]
    short = {"slurm_partition": "short", "runtime": 1}
    # Slurm looks at limits every 30 s and may warn so much earlier: here 20 to 50 s after the start.
    warned = {**short, "runtime": 2, "slurm_extra": f"--signal=USR1@70 {on[0]}"}
    project.add_held("warned", resources=warned)
    # No --signal: the launcher must stop the trainer itself. Its save takes nearly all of KillWait.
    slow = {"save_s": KILL_WAIT_S - 1}
    project.add_held("unwarned", config=slow, resources={**short, "slurm_extra": on[1]})
    grace = {"slurm_partition": "grace"}
    project.add_held("c01", on[2], config={"save_s": 5}, resources=grace)
    project.add_held("c07", on[3], config={"save_s": 2}, resources=grace, command=WRAPPED)
    try:
        snakemake = project.begin()
        for slug in ("c01", "c07"):
            project.holding(slug)
            cluster.preempt(project.job(slug))
        for slug in ("c01", "c07", "warned", "unwarned"):
            run = project.holding(slug, starts=2)
            (run / "release").touch()
        assert project.finish(snakemake) == 0, project.log()
        for slug in project.slugs:
            run = project.one_run(slug)
            assert starts_of(run) == [0, 4]  # nothing was replayed
            assert result_of(run)["total"] == toy_total(8)
            assert (status_of(run)["attempt"], status_of(run)["resubmit_count"]) == (2, 1)
        assert "Trying to restart" not in project.log()
        _stopped_in_time(project)
        _names_the_number(project.one_run("unwarned"))
        for slug in ("c01", "c07"):
            _kept_42(project.one_run(slug), cluster)
    finally:
        project.close()


def _stopped_in_time(project: SlurmProject) -> None:
    """By Slurm's signal, or where that comes late (it looks at limits every 30 s) by the launcher."""
    said = (project.one_run("warned") / "logs" / "attempt_1.log").read_text()
    assert "SIGUSR1 passed on to the trainer" in said or "time limit is near and no signal came" in said
    said = (project.one_run("unwarned") / "logs" / "attempt_1.log").read_text()
    assert "time limit is near and no signal came" in said


def _names_the_number(run: Path) -> None:
    warnings = " ".join(event["warning"] for event in events_of(run, "grace_warning"))
    assert f"KillWait, {KILL_WAIT_S} s" in warnings
    assert f"stopping takes {KILL_WAIT_S - 1}" in warnings


def _kept_42(run: Path, cluster: Cluster) -> None:
    """c01, c07: the save was completed, and 42 is what accounting keeps; neither Slurm nor a shell came in between."""
    job = status_of(run)["slurm_job_id"]
    rows = [row for row in cluster.sacct(job) if row["JobID"] == f"{job}.0"]
    assert rows[0]["ExitCode"] == "42:0"
    assert json.loads((run / "checkpoints" / "last.pt").read_text())["step"] == 4

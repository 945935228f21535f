"""One run directory, two Slurm jobs: the loser says who holds it, and Snakemake waits for the holder."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, events_of, result_of
from tests.workflow.project import ROOT, starts_of, status_of, toy_total
from unbroken.collection import load_collection

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def launched_by_hand(project: SlurmProject, slug: str, *options: str) -> tuple[str, Path]:
    """A person submits the launch of the collection's one run, without Snakemake; the job and the run directory."""
    run = next(load_collection(project.folder / "config" / "collections" / f"{slug}.yaml").runs())
    root = run.paths(project.folder / "runs").root
    spec = project.folder / f"{slug}.json"
    spec.write_text(json.dumps(run.launch_spec()))
    launcher = [sys.executable, "-m", "unbroken.launch", "--run-dir", str(root), "--spec", f"@{spec}"]
    script = f"exec srun -n1 {shlex.join(launcher)}"
    environment = {"PYTHONPATH": str(ROOT / "src")}
    return project.cluster.sbatch(script, *options, env=environment, cwd=project.folder), root


def test_two_jobs_for_one_run_directory_and_a_requeue_while_it_saves(tmp_path: Path, cluster: Cluster) -> None:
    project = SlurmProject(tmp_path, cluster)
    on = [f"--nodelist={node}" for node in cluster.nodes]
    project.add_held("shared", on[0])
    project.add_held("other", on[1])
    project.add_held("saving", on[2], config={"save_s": 6})
    try:
        by_hand, run = launched_by_hand(project, "shared", "--mem=500M", on[0])
        snakemake = project.begin()
        other, saving = project.holding("other"), project.holding("saving")

        # Requeued by a person: Slurm starts it again, the old trainer still saves.
        job = project.job("saving")
        cluster.run(["scontrol", "requeue", job])

        # A second job for a run that Snakemake trains: it loses, and the run goes on.
        second, _ = launched_by_hand(project, "other", "--mem=500M", on[3])
        cluster.wait_state(second, "FAILED")
        assert f"Slurm job {project.job('other')}" in cluster.output(second)
        assert _step_code(cluster, second) == "45:0"

        # Snakemake's job for a run that a person's job trains.
        project.said(f"Slurm job {by_hand}")
        project.said("waiting for that job")
        (run / "release").touch()
        (other / "release").touch()
        project.holding("saving", starts=2)
        (saving / "release").touch()
        assert project.finish(snakemake) == 0, project.log()

        assert starts_of(run) == [0] and starts_of(other) == [0]
        assert [event["slurm_job_id"] for event in events_of(run, "run_started")] == [by_hand]
        assert starts_of(saving) == [0, 4]
        assert status_of(saving)["restart_count"] == 1
        for root in (run, other, saving):
            assert result_of(root)["total"] == toy_total(8)
    finally:
        project.close()


def _step_code(cluster: Cluster, job: str) -> str:
    return next(row["ExitCode"] for row in cluster.sacct(job) if row["JobID"] == f"{job}.0")

"""The main job on real input: a collection on the CAMELS data, each run preempted in three kinds of partition."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.camels import BASINS, PRODUCTS, camels_root
from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject
from tests.workflow.project import Project, status_of, wait_for

pytestmark = pytest.mark.slurm

PARTITIONS = ("grace", "nograce", "cancel")
COLLECTION = {
    "trainer": "consensus",
    "data": {"source": "camels", "basins": list(BASINS), "products": list(PRODUCTS), "train_end": "2001-12-31"},
    "config": {"epochs": 150, "batch_size": 64, "lr": 0.001},
    "grid": {"hidden": [16, 32]},
    "seeds": 2,
    # One run a node, so that a job that wants the whole node pushes exactly one run out.
    "resources": {"slurm_partition": "grace", "cpus_per_task": 5, "mem_mb": 2000},
    "operational": {"checkpoint_interval": 0},
}


def last_logged_step(run: Path) -> int:
    try:
        rows = list(csv.DictReader((run / "metrics.csv").read_text().splitlines()))
    except FileNotFoundError:
        return 0
    return int(rows[-1]["step"]) if rows else 0


def make(project: Project, folder: Path) -> None:
    project.add("camels", **COLLECTION)
    project.write_config(data_roots={"camels": str(camels_root(folder))})


@pytest.fixture
def undisturbed(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path / "undisturbed")
    make(project, tmp_path / "data")
    yield project
    project.close()


@pytest.fixture
def interrupted(tmp_path: Path, cluster: Cluster) -> Iterator[SlurmProject]:
    project = SlurmProject(tmp_path / "interrupted", cluster)
    make(project, tmp_path / "data")
    yield project
    project.close()


def test_every_run_is_preempted_thrice_and_ends_in_the_same_bits(
    undisturbed: Project, interrupted: SlurmProject, cluster: Cluster
) -> None:
    snakemake = interrupted.begin()
    interrupted.await_(lambda: len(interrupted.runs("camels")) == 4, "four runs")
    runs = interrupted.runs("camels")
    for attempt, following in enumerate((*PARTITIONS[1:], "grace"), start=1):
        for run in runs:
            # Once it has trained beyond where it began, push it out of its node.
            interrupted.await_(lambda: status_of(run).get("attempt") == attempt, f"attempt {attempt} of {run}")  # noqa: B023
            began = status_of(run)["global_step"]
            interrupted.await_(lambda: last_logged_step(run) > began + 10, f"progress of {run}")  # noqa: B023
            assert not (run / "result.json").exists(), "the training is too short to be interrupted three times"
            cluster.preempt(status_of(run)["slurm_job_id"])
        for run in runs:
            job = status_of(run)["slurm_job_id"]
            wait_for(lambda: cluster.scontrol_show(job).get("Restarts") == str(attempt), f"{job} to be requeued")  # noqa: B023
            cluster.run(["scontrol", "update", f"jobid={job}", f"partition={following}"])
    assert interrupted.finish(snakemake, 240) == 0, interrupted.log()
    done = undisturbed.snakemake("--cores", "2")
    assert done.returncode == 0, done.stdout

    for run in runs:
        other = undisturbed.folder / run.relative_to(interrupted.folder)
        assert status_of(run)["attempt"] == 4 and status_of(other)["attempt"] == 1
        for name in ("result.json", "metrics.csv", "predictions.csv", "skill.csv"):
            assert (run / name).read_bytes() == (other / name).read_bytes(), name
        assert_same_bits(run / "checkpoints" / "last.pt", other / "checkpoints" / "last.pt")
        events = [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]
        assert events.count("graceful_shutdown") == events.count("resumed") == 3
        # Where Slurm requeues by itself (without a grace time; 24.11 always) the launcher sees it and keeps out of it.
        by_launcher = 2 if cluster.version < (24, 11) else 1
        assert events.count("requeued") == by_launcher and status_of(run)["restart_count"] == 3
    summaries = [(project.folder / "results/camels/summary.csv").read_bytes() for project in (interrupted, undisturbed)]
    assert summaries[0] == summaries[1]
    assert "Trying to restart" not in interrupted.log()


def assert_same_bits(first: Path, second: Path) -> None:
    """Model, optimizer and all else that training goes on from."""
    mine, other = (torch.load(path, weights_only=True) for path in (first, second))
    differing = [key for key in mine if key != "written_at" and not equal(mine[key], other[key])]
    assert mine.keys() == other.keys() and not differing, differing


def equal(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return a == b

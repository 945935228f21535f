"""The workflow on this machine, without Slurm: what is run, what is not run again, what an interruption costs."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.workflow.project import Project, starts_of, status_of, toy_total, wait_for

STEPS = 6


def total_of(run: Path) -> int:
    return int(json.loads((run / "result.json").read_text())["total"])


def test_a_collection_runs_and_is_not_run_again(project: Project) -> None:
    project.add("toy", config={"steps": STEPS}, grid={"save_every": [1, 2]}, seeds=2)
    assert "train_toy" in project.snakemake("-n").stdout
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert sorted(total_of(run) for run in project.runs("toy")) == sorted(
        [toy_total(STEPS, 0), toy_total(STEPS, 1)] * 2
    )
    summary = (project.folder / "results" / "toy" / "summary.csv").read_text()
    assert len(summary.splitlines()) == 1 + 4
    assert (project.folder / "results" / "toy" / "report.html").exists()
    assert "Nothing to be done" in project.snakemake().stdout


def test_cosmetic_edits_and_a_moved_project_retrain_nothing(project: Project, tmp_path: Path) -> None:
    project.add("toy", config={"steps": STEPS, "save_every": 1}, operational={"checkpoint_interval": 5})
    assert project.snakemake().returncode == 0
    project.add(
        "toy", config={"save_every": 1, "steps": STEPS}, description="new", operational={"checkpoint_interval": 9}
    )
    moved = project.folder.parent / (project.folder.name + " moved")
    shutil.move(project.folder, moved)
    project.folder = moved
    dry = project.snakemake("-n").stdout
    assert "train_toy" not in dry
    project.add("toy", config={"steps": STEPS, "save_every": 2})
    assert "train_toy" in project.snakemake("-n").stdout
    shutil.move(moved, tmp_path)  # pytest cleans up what it has made


def test_a_collection_is_a_target_by_its_slug(project: Project) -> None:
    project.add("listed", config={"steps": 1})
    project.add("by-name_2", listed=False, config={"steps": 1})
    assert project.snakemake("by-name_2").returncode == 0
    assert not project.runs("listed")
    assert len(project.runs("by-name_2")) == 1


def test_an_interrupted_snakemake_goes_on_where_it_was(project: Project) -> None:
    project.add("toy", config={"steps": STEPS, "hold_at": 4, "save_every": 100})
    snakemake = project.start()
    run = project.holding("toy")
    os.killpg(snakemake.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    assert snakemake.wait(120) != 0
    assert status_of(run)["status"] == "preempted"
    (run / "release").touch()
    again = project.snakemake()
    assert again.returncode == 0, again.stdout
    assert starts_of(run) == [0, 4]
    assert total_of(run) == toy_total(STEPS)


def test_a_run_that_outlived_its_killed_snakemake_is_taken_as_it_is(project: Project) -> None:
    project.add("toy", config={"steps": STEPS, "hold_at": 4, "save_every": 100})
    snakemake = project.start()
    run = project.holding("toy")
    snakemake.kill()  # not its group: the launcher and the trainer go on
    snakemake.wait()
    (run / "release").touch()
    wait_for(lambda: status_of(run)["status"] == "completed", "the end of the run")
    assert project.snakemake("--unlock").returncode == 0
    again = project.snakemake()
    assert again.returncode == 0, again.stdout
    assert total_of(run) == toy_total(STEPS)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGUSR2"])
def test_a_signal_to_the_launcher_costs_nothing(project: Project, name: str) -> None:
    project.add("toy", config={"steps": STEPS, "hold_at": 4, "save_every": 100})
    snakemake = project.start()
    run = project.holding("toy")
    os.kill(status_of(run)["pid"], signal.Signals[name])
    project.holding("toy", starts=2)
    (run / "release").touch()
    assert snakemake.wait(120) == 0, project.log()
    assert starts_of(run) == [0, 4]
    assert total_of(run) == toy_total(STEPS)


def test_a_killed_trainer_goes_on_from_its_last_checkpoint(project: Project) -> None:
    project.add("toy", config={"steps": STEPS, "hold_at": 5, "save_every": 2})
    snakemake = project.start()
    run = project.holding("toy")
    os.kill(int((run / "starts.txt").read_text().split()[0]), signal.SIGKILL)
    project.holding("toy", starts=2)
    (run / "release").touch()
    assert snakemake.wait(120) == 0, project.log()
    assert starts_of(run) == [0, 4]
    assert total_of(run) == toy_total(STEPS)


def test_a_crash_is_trained_once_and_the_others_are_summed_up(project: Project) -> None:
    project.add("toy", config={"steps": STEPS}, settings=[{"crash_at": 3}, {"crash_at": -1}])
    done = project.snakemake()
    assert done.returncode != 0
    bad, good = sorted(project.runs("toy"), key=lambda run: (run / "result.json").exists())
    assert starts_of(bad) == [0]
    assert total_of(good) == toy_total(STEPS)
    for word in ("toy", "crash_at=3", "ValueError: loss is nan at step 3", "attempt_1.log"):
        assert word in done.stdout
    assert len((project.folder / "results" / "toy" / "summary.csv").read_text().splitlines()) == 2
    # A new call tries it again.
    assert project.snakemake().returncode != 0
    assert starts_of(bad) == [0, 3]


def test_c31_a_failed_run_leaves_its_siblings_files(project: Project) -> None:
    project.add("toy", config={"steps": STEPS, "crash_at": 3}, seeds=2)
    assert project.snakemake().returncode != 0
    for run in project.runs("toy"):
        assert (run / "checkpoints" / "last.pt").exists()


def test_c09_retries_do_not_multiply(project: Project) -> None:
    """A trainer that is killed again and again: Snakemake's retries are the number of starts less one."""
    project.add("toy", config={"steps": STEPS, "kill_at": 2, "save_every": 1}, operational={"no_progress_limit": 50})
    assert project.snakemake("--retries", "2").returncode != 0
    assert len(starts_of(project.one_run("toy"))) == 3


def test_a_second_snakemake_does_not_train_beside_an_orphan(project: Project) -> None:
    project.add("toy", config={"steps": STEPS, "hold_at": 4})
    first = project.start()
    run = project.holding("toy")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    project.snakemake("--unlock")
    second = project.snakemake()
    assert second.returncode != 0
    assert str(status_of(run)["pid"]) in second.stdout  # says who holds it
    assert starts_of(run) == [0]
    (run / "release").touch()
    wait_for((run / "result.json").exists, "the orphan to finish")
    assert project.snakemake().returncode == 0
    assert starts_of(run) == [0]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"grid": {"lr": []}}, ["toy.yaml", "grid.lr", "empty"]),
        ({"seedz": 2}, ["toy.yaml", "seedz", "seeds"]),
        ({"resources": {"slurm_extra": "--signal=B:USR1@60"}}, ["B:", "USR1@120"]),
    ],
)
def test_a_mistake_is_one_message(project: Project, keys: dict[str, object], words: list[str]) -> None:
    project.add("toy", config={"steps": 1}, **keys)
    done = project.snakemake("-n")
    assert done.returncode != 0
    assert "Traceback" not in done.stdout
    for word in words:
        assert word in done.stdout
    assert len(done.stdout.splitlines()) < 12

"""Pinned code through the real workflow: on, edited, interrupted, turned off."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.workflow.project import TOY, Project, starts_of

SCRIPT = """
import os, runpy
with open(os.environ["UNBROKEN_RUN_DIR"] + "/versions.txt", "a") as file:
    file.write("VERSION\\n")
runpy.run_path({toy!r}, run_name="__main__")
"""


def write_script(project: Project, version: str) -> None:
    (project.folder / "train.py").write_text(SCRIPT.format(toy=str(TOY)).replace("VERSION", version))


def versions(run: Path) -> list[str]:
    return (run / "versions.txt").read_text().split()


def git(project: Project, *arguments: str) -> str:
    options = ["-c", "user.name=t", "-c", "user.email=t@t"]
    done = subprocess.run(["git", *options, *arguments], cwd=project.folder, text=True, capture_output=True, check=True)
    return done.stdout


def events(run: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_attempts_stay_in_the_pinned_code_until_it_is_turned_off(project: Project) -> None:
    keys = {"command": "python train.py", "config": {"steps": 4, "hold_at": 2}}
    project.add("x", **keys, operational={"job_code_snapshot_enabled": True})
    write_script(project, "one")
    (project.folder / ".gitignore").write_text("/runs/\n/results/\n.snakemake/\n*.log\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")

    snakemake = project.start("x", "--cores", "1")
    run = project.holding("x")
    write_script(project, "two")
    launcher = json.loads((run / "run_status.json").read_text())["pid"]
    (run / "holding").unlink()
    os.kill(launcher, signal.SIGTERM)  # exit 42: Snakemake's retry starts it again
    project.holding("x", starts=2)
    os.killpg(snakemake.pid, signal.SIGINT)
    assert snakemake.wait(120) != 0
    assert versions(run) == ["one", "one"] and "code_changed" not in events(run)
    assert "every attempt runs the code of commit" in project.log()

    project.add("x", **keys, operational={"job_code_snapshot_enabled": "no"})
    (run / "release").touch()
    done = project.snakemake("x", "--cores", "1")
    assert done.returncode == 0, done.stdout
    assert "x: code no longer pinned" in done.stdout
    assert versions(run) == ["one", "one", "two"] and starts_of(run) == [0, 2, 2]
    assert events(run).count("code_changed") == 1
    assert len(git(project, "worktree", "list").splitlines()) == 1


def test_pruned_when_finished_and_never_made_by_a_dry_run(project: Project) -> None:
    project.add("x", command="python train.py", config={"steps": 2}, operational={"job_code_snapshot_enabled": 1})
    write_script(project, "one")
    dry = project.snakemake("-n", "x")
    assert dry.returncode == 0 and not (project.folder / "runs").exists()
    done = project.snakemake("x", "--cores", "1")
    assert done.returncode == 0, done.stdout
    (run,) = project.runs("x")
    assert versions(run) == ["one"] and "x: finished, pinned code removed" in done.stdout
    (left,) = (project.folder / "runs" / "x" / ".code").iterdir()
    assert left.name.startswith("copy") and left.suffix == ".json"

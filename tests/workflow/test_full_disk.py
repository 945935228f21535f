"""A disk that gets full while a run trains: named as what it is, trained once, and gone on with when there is room."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.project import ROOT, Project, starts_of, status_of, toy_total

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system: needs root")
STEPS = 6


@pytest.fixture
def small_disk(project: Project) -> Iterator[Path]:
    """The project's runs on a disk of 1 MB."""
    runs = project.folder / "runs"
    runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(runs)], check=True)
    yield runs
    subprocess.run(["umount", "-l", str(runs)], check=True)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def unbroken(project: Project, *words: str) -> str:
    argv = [sys.executable, "-m", "unbroken.cli", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(argv, cwd=project.folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_full_disk_is_named_trained_once_and_gone_on_with(project: Project, small_disk: Path) -> None:
    project.add("toy", config={"steps": STEPS, "hold_at": 3})
    snakemake = project.start()
    run = project.holding("toy")
    fill(small_disk)
    (run / "release").touch()
    assert snakemake.wait(120) != 0
    assert "No space left on device" in project.log() and "without a word" not in project.log()
    assert starts_of(run) == [0]
    status = status_of(run)
    assert (status["status"], status["failure"], status["attempt"]) == ("failed", "crash", 1)
    assert "No space left on device" in unbroken(project, "status") and "1 failed" in unbroken(project, "status")
    [verdict] = json.loads(unbroken(project, "why", "toy", "--json"))
    assert (
        verdict["kind"] == "crash" and "a disk is full" in verdict["sentence"] and "Free some space" in verdict["fix"]
    )
    (small_disk / "filler").unlink()
    assert project.snakemake().returncode == 0
    assert starts_of(run) == [0, 3]
    assert json.loads((run / "result.json").read_text())["total"] == toy_total(STEPS)

"""The launcher and the code it starts: pinned, missing, changed."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.launcher_kit import Run
from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.events import read_events
from unbroken.snapshot import make

RESULT = 'echo "{}" > "$UNBROKEN_RUN_DIR/result.json"'


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.paths = RunPaths(tmp_path / "runs" / "demo" / "0123456789ab" / "seed_7")
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "who").write_text("pinned\n")
    (project / "src" / "lib_of_project.py").write_text("who = 'pinned'\n")
    run.python(
        "import os, sys; print(open('who').read(), os.environ['UNBROKEN_PROJECT_DIR'], flush=True);"
        "import lib_of_project; print(lib_of_project.who); sys.exit(42)"
    )
    run.environment["PYTHONPATH"] = f"{project / 'src'}:{Path(make.__file__).parents[2]}"
    return run


def start(run: Run) -> tuple[int, str]:
    code, said = run.run(cwd=run.folder / "project")
    assert run.status.attempt, said
    return code, run.paths.attempt_log(run.status.attempt).read_text()


def change(run: Run) -> None:
    (run.folder / "project" / "who").write_text("live\n")
    (run.folder / "project" / "src" / "lib_of_project.py").write_text("who = 'live'\n")


def test_on_it_runs_there_off_it_never_does_again(run: Run) -> None:
    home = run.paths.root.parents[1] / ".code"
    make.ensure(home, run.folder / "project", [])
    change(run)
    run.spec["operational"] = {"job_code_snapshot_enabled": "true"}
    code, log = start(run)
    assert code == 42 and log.count("pinned") >= 2 and "live" not in log and str(run.folder / "project") in log
    for off in ("false", "no", 0):
        run.spec["operational"] = {"job_code_snapshot_enabled": off}  # the stale snapshot.json is still there
        assert (home / "snapshot.json").exists()
        _, log = start(run)
        assert "live" in log and "pinned" not in log


def test_pinned_code_that_is_missing_is_a_sentence_and_nothing_runs(run: Run) -> None:
    run.spec["operational"] = {"job_code_snapshot_enabled": True}
    code, log = start(run)
    assert code == 1 and "no code is pinned" in log and run.status.status == "failed"


def test_a_change_between_attempts_is_recorded(run: Run) -> None:
    project = run.folder / "project"
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments], cwd=project, check=True)
    start(run)
    start(run)
    assert "code_changed" not in run.events
    change(run)
    start(run)
    (event,) = [event for event in read_events(run.paths) if event["event"] == "code_changed"]
    assert event["attempt"] == 3 and event["local_changes"] == ["src/lib_of_project.py", "who"]
    assert json.loads((run.paths.root / "code.json").read_text())["attempt"] == 3

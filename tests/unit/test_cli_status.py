"""`unbroken status` on run directories, without Slurm and with a fake queue; and what it reads for that."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli_kit import Cli

from unbroken.cli import is_plain_status
from unbroken.cli.output import bar, duration, plain_table
from unbroken.cli.queue import Queue, run_of
from unbroken.cli.rows import collection_rows
from unbroken.cli.speed import seconds_left
from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir import lease
from unbroken.run_dir.events import append_event
from unbroken.run_dir.status import update_status

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """A project with two settings of two seeds, and no Slurm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    cli = Cli(tmp_path, capsys)
    cli.add(grid={"lr": [1, 2]})
    return cli


def prepare(paths: RunPaths, **changes: Any) -> None:
    paths.root.mkdir(parents=True, exist_ok=True)
    update_status(paths, durable=False, **changes)


def test_every_run_has_a_row_started_or_not(cli: Cli) -> None:
    first, second, *_ = cli.runs()
    prepare(first, status="completed", attempt=2, resubmit_count=1, global_step=100, total_steps=100)
    prepare(
        second,
        status="failed",
        attempt=1,
        reason="crashed with exit code 1: ValueError",
        global_step=50,
        total_steps=100,
    )
    code, said = cli("status")
    assert code == 0
    lines = said.splitlines()
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["lr=1", "0", "completed"],
        ["lr=1", "1", "failed"],
        ["lr=2", "0", "pending"],
        ["lr=2", "1", "pending"],
    ]
    assert "#####....." in lines[2] and "50/100" in lines[2] and "ValueError" in lines[2]
    assert "x: 4 runs: 1 completed, 1 failed, 2 pending; 3 attempts, 1 resubmit\n" in said
    assert "x: 1 setting not started: lr=2" in said


def test_json_has_the_same_and_more(cli: Cli) -> None:
    first, *_ = cli.runs()
    lease.acquire(first)  # by this process, which lives
    prepare(first, status="running", global_step=10, total_steps=30, attempt=1)
    first.checkpoints.mkdir()
    first.last.write_text("")
    append_event(first, "run_started", 1)
    events = [{"event": "run_started"}] + [
        {"event": "checkpoint_saved", "global_step": step, "time": f"2026-01-01T00:00:{step:02}Z"} for step in (5, 10)
    ]
    first.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    code, said = cli("status", "x", "--json")
    rows = json.loads(said)["collections"]["x"]["runs"]
    assert code == 0 and len(rows) == 4
    assert rows[0]["eta_s"] == 20.0  # one step a second, twenty to go
    assert rows[0]["checkpoint_age_s"] < 60 and rows[1]["status"] == "pending"
    assert json.loads(said)["slurm"] == ""  # there is none here


def test_what_cannot_be_read_is_a_row_and_no_crash(cli: Cli) -> None:
    first, second, third, _ = cli.runs()
    for paths, content in ((first, b"{torn"), (second, b"[]"), (third, b"")):
        paths.root.mkdir(parents=True)
        paths.status.write_bytes(content)
    code, said = cli("status")
    assert code == 0 and said.count("unreadable") >= 3 and "is not JSON" in said


def test_a_directory_that_the_collection_no_longer_names_is_shown_apart(cli: Cli) -> None:
    old = RunPaths.of("runs", "x", "0123456789ab", 7)
    prepare(old, status="completed")
    _, said = cli("status")
    assert "(not in the collection any more)" in said and "x: 4 runs" in said


def test_runs_may_live_elsewhere(cli: Cli) -> None:
    cli.config(collections=["x"], runs_dir="elsewhere")
    prepare(RunPaths.of("elsewhere", "x", cli.runs()[0].root.parent.name, 0), status="completed")
    assert "1 completed" in cli("status")[1]


def test_mistakes_are_one_sentence(cli: Cli) -> None:
    code, said = cli("status", "y")
    assert code == 1 and said.strip() == "unbroken: there is no collection 'y' in config/config.yaml; there are: x"
    cli.collections.joinpath("x.yaml").write_text("command: true\nsed: 3\n")
    code, said = cli("status")
    assert code == 1 and said.startswith("unbroken: ") and "Traceback" not in said


def job(**more: str) -> dict[str, str]:
    base = {"job_id": "9", "raw_id": "9", "state": "PENDING", "reason": "Priority", "nodes": "", "workdir": os.getcwd()}
    return {**base, "comment": "", **more}


def test_a_job_is_found_by_its_comment_before_the_run_ever_started(cli: Cli) -> None:
    assert run_of("rule_train_a_b_wildcards_a_b_0123456789ab_12") == ("a_b", "0123456789ab", 12)
    comment = "rule_train_x_wildcards_x_0123456789ab_0"
    queue = Queue({"jobs": [job(comment=comment), job(comment=comment, workdir="/", job_id="8")], "why_not": None})
    known = {"settings": [["0123456789ab", "base"]], "seeds": [0]}
    (row,) = collection_rows("x", known, "runs", {}, queue)
    assert (row["slurm_job_id"], row["pending_reason"]) == ("9", "Priority")
    assert row["reason"] == "queued: jobs with a higher priority are before it"


def test_speed_counts_from_the_newest_start() -> None:
    def at(second: int, event: str, step: int | None = None) -> dict[str, Any]:
        return {
            "event": event,
            "time": f"2026-01-01T00:00:{second:02}Z",
            **({} if step is None else {"global_step": step}),
        }

    events = [at(0, "run_started"), at(1, "checkpoint_saved", 1000), at(20, "resumed", 1000)]
    assert seconds_left(events, 1100) is None
    assert seconds_left([*events, at(30, "checkpoint_saved", 1010)], 1100) == 90.0
    assert seconds_left([*events, at(30, "checkpoint_saved", 1010)], None) is None


def test_small_things() -> None:
    assert [duration(s) for s in (None, 5, 65, 3700, 90_000)] == ["", "5 s", "1 min", "1 h 1 min", "1 d 1 h"]
    assert [bar(1, 2), bar(0, None), bar(5, 2)] == ["#####.....", "", "##########"]
    assert plain_table(["a", "b", "c"], [("1", "", "x%s")]) == "a  c\n1  x%s\n"
    assert is_plain_status(["status", "x", "--json"]) and not is_plain_status(["status", "--watch"])
    assert not is_plain_status(["why", "x"]) and not is_plain_status(["status", "x", "y"])


def test_the_command_line_needs_no_torch_and_no_pandas(cli: Cli) -> None:
    code = (
        "import sys, unbroken.cli.app as app; app.build([]);"
        "print(sorted({'torch', 'pandas', 'snakemake'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


OPENED: list[str] = []
"""What is opened while ``watching`` is on; an audit hook stays for the rest of the process."""
watching = False


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if watching and event == "open":
        OPENED.append(str(arguments[0]))


def test_of_each_run_one_file_is_opened(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the overview of ten thousand runs quick; how quick is row 10 of the benchmarks."""
    cli.add(seeds=10, grid={"lr": list(range(10))})
    for number, paths in enumerate(cli.runs()):
        prepare(paths, status="completed" if number % 10 else "preempted", attempt=2, global_step=100, total_steps=100)
    cli("status")  # remembers the expanded collection
    sys.addaudithook(_note)
    monkeypatch.setattr(sys.modules[__name__], "watching", True)
    assert cli("status")[0] == 0
    monkeypatch.undo()
    of_runs = sorted(path for path in OPENED if "seed_" in path)
    assert len(of_runs) == 100 and all(path.endswith("run_status.json") for path in of_runs), of_runs[:5]


def test_a_remembered_collection_is_forgotten_when_its_file_changes(cli: Cli) -> None:
    prepare(cli.runs()[0], status="completed")
    assert "x: 4 runs" in cli("status")[1]
    assert Path("runs/.collections.json").is_file()
    assert "x: 4 runs" in cli("status")[1]
    cli.collections.joinpath("table.csv").write_text("lr\n1\n2\n3\n")
    cli.collections.joinpath("x.yaml").write_text("command: 'true'\nseeds: 2\ntable: table.csv\n")
    assert "x: 6 runs" in cli("status")[1]
    cli.collections.joinpath("table.csv").write_text("lr\n1\n2\n")
    assert "x: 4 runs" in cli("status")[1]
    Path("runs/.collections.json").write_text("{torn")
    assert "x: 4 runs" in cli("status")[1]


def test_a_collection_that_is_run_by_name_is_shown_too(cli: Cli) -> None:
    cli("status")  # what is remembered now does not know it
    cli.add("y", seeds=1)
    code, said = cli("status", "y")
    assert code == 1 and "collection 'y' is not listed in config/config.yaml" in said
    (cli.folder / "runs" / "y").mkdir(parents=True)
    code, said = cli("status", "y")
    assert code == 0 and "y: 1 run: 1 pending" in said

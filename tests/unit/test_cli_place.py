"""Runs that live elsewhere, collections that were not started or are not listed, and the command that starts them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli_kit import Cli

from unbroken.cli.app import COMMANDS
from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.status import update_status


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Two runs, no Slurm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("UNBROKEN_RUNS_DIR", raising=False)
    cli = Cli(tmp_path, capsys)
    cli.add()
    return cli


def with_sbatch(cli: Cli) -> None:
    sbatch = cli.folder / "nothing" / "sbatch"
    sbatch.write_text("#!/bin/false\n")
    sbatch.chmod(0o755)


def begin(paths: RunPaths, **changes: object) -> None:
    paths.root.mkdir(parents=True, exist_ok=True)
    update_status(
        paths, durable=False, attempt=1, **{"status": "failed", "failure": "crash", "exit_code": 1, **changes}
    )


def elsewhere(cli: Cli) -> RunPaths:
    """The first run, where `snakemake --config runs_dir=else/where` has put it."""
    paths = RunPaths(Path("else/where") / cli.runs()[0].root.relative_to("runs"))
    begin(paths)
    return paths


def test_runs_that_snakemake_was_told_to_put_elsewhere(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"x/{elsewhere(cli).root.parent.name}/0"
    said = cli("status")[1]
    assert "2 pending" in said and "looked in runs/ (runs_dir of config/config.yaml; " in said and "--runs-dir" in said
    given = ("--runs-dir", "else/where")
    assert "1 failed, 1 pending" in cli("status", *given)[1]
    assert "No run directories" not in cli("status", *given)[1]
    assert json.loads(cli("status", "--json", *given)[1])["runs_dir"] == "else/where"
    verdict = json.loads(cli("why", name, "--json", *given)[1])
    assert verdict["kind"] == "crash" and verdict["fix"].endswith("snakemake x --config runs_dir=else/where")
    assert "2 pending" in cli("status")[1]  # it holds for one call
    said = cli("status", "--runs-dir", "nowhere")[1]
    assert "looked in nowhere/ (--runs-dir)" in said
    monkeypatch.setenv("UNBROKEN_RUNS_DIR", "else/where")
    assert "1 failed, 1 pending" in cli("status")[1]
    assert "may be trained again" in cli("retry", name)[1]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "UNBROKEN_RUNS_DIR": "else/where"}
    argv = [sys.executable, "-c", "from unbroken.cli import main; main()", "status"]  # its own, quick way to the table
    quick = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert "2 pending" in quick.stdout and "No run directories" not in quick.stdout


LOOK_AT_RUNS = sorted(set(COMMANDS) - {"cluster", "new", "init"})


@pytest.mark.parametrize("name", LOOK_AT_RUNS)
def test_every_command_that_looks_at_runs_can_be_told_where_they_are(cli: Cli, name: str) -> None:
    assert "--runs-dir" in cli(name, "--help")[1]


def test_check_and_retry_look_there_too(cli: Cli) -> None:
    paths = elsewhere(cli)
    paths.result.write_text("{}")
    assert "1 finished, 1 to do" in cli("check", "--runs-dir", "else/where")[1]
    assert "is completed" in cli("retry", f"x/{paths.root.parent.name}/0", "--runs-dir", "else/where")[1]


def test_why_before_anything_was_started(cli: Cli) -> None:
    code, said = cli("why", "x")
    assert code == 0
    assert said == "x: none of its 2 runs was started yet; start them with: snakemake x\n"
    with_sbatch(cli)
    assert "snakemake x (as Slurm jobs: snakemake --profile slurm x)" in cli("why", "x")[1]


@pytest.mark.parametrize("words", [["why", "y"], ["why", "y/base/0"], ["status", "y"], ["metrics", "y"]])
def test_a_collection_that_is_not_listed(cli: Cli, words: list[str]) -> None:
    cli.add("y")
    code, said = cli(*words)
    assert code in (1, 2)
    assert "collection 'y' is not listed in config/config.yaml, and nothing of it was started in runs/ yet" in said
    assert "start it with: snakemake y" in said


def test_a_slip_in_the_name_of_a_collection(cli: Cli) -> None:
    cli.config(collections=["demo"])
    cli.add("demo")
    assert "did you mean `demo`?" in cli("why", "dmo")[1]
    assert "did you mean `demo`?" in cli("status", "dmo")[1]
    assert "no run fits 'demo/nothing': `unbroken status`" in cli("why", "demo/nothing")[1]


def test_a_result_counts_before_its_launcher_has_said_so(cli: Cli) -> None:
    first, second = cli.runs()
    begin(first, status="running", failure=None, exit_code=None)
    first.result.write_text("{}")
    assert cli("why", "x")[1] == "x: 1 of 2 runs finished, 1 not started\n"
    begin(second, status="completed", failure=None, exit_code=0)  # and its result is gone
    said = cli("why", "x")[1]
    assert "there is no result.json" in said and said.endswith("x: 1 of 2 runs finished, 0 not started\n")


def test_why_of_a_collection_passes_over_no_torn_status(cli: Cli) -> None:
    paths = cli.runs()[0]
    paths.root.mkdir(parents=True)
    paths.status.write_text("{torn")
    code, said = cli("why", "x")
    assert code == 0 and "x: 0 of 2 runs finished, 1 not started" in said


def test_a_run_is_started_again_as_it_was_started_last(cli: Cli) -> None:
    with_sbatch(cli)
    local, on_slurm = cli.runs()
    begin(local)
    begin(on_slurm, slurm_job_id="7")
    setting = local.root.parent.name
    fixes = [json.loads(cli("why", f"x/{setting}/{seed}", "--json")[1])["fix"] for seed in (0, 1)]
    assert fixes[0].endswith("snakemake x") and fixes[1].endswith("snakemake --profile slurm x")
    assert cli("retry", f"x/{setting}/0")[1].endswith(": snakemake x\n")
    local.status.unlink()
    fix = json.loads(cli("why", f"x/{setting}/0", "--json")[1])["fix"]
    assert fix == "Start it with: snakemake x (as Slurm jobs: snakemake --profile slurm x)"

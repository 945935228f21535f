"""Which run is meant, and the commands on one run: why, retry, preempt, gpu."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli_kit import Cli
from tests.unit.fake_slurm import FakeSlurm

from unbroken import __version__
from unbroken.cli.locate import JobRef, RunNotFound, RunRef, find
from unbroken.run_dir import lease
from unbroken.run_dir.events import append_event, read_events
from unbroken.run_dir.files import write_json
from unbroken.run_dir.status import read_status, update_status


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """Four runs, lr 0.1 and 0.25 with two seeds; no Slurm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    cli = Cli(tmp_path, capsys)
    cli.add(grid={"lr": [0.1, 0.25]})
    yield cli


def test_every_way_to_name_a_run(cli: Cli) -> None:
    paths = cli.runs()[1]
    paths.root.mkdir(parents=True)
    update_status(paths, durable=False, slurm_job_id="77")
    setting = paths.root.parent.name
    by_words = (
        f"x/{setting}/1",
        f"x/{setting}/seed_1",
        f"{setting[:6]}/1",
        "x/lr=0.1/1",
        "lr=0.1/1",
        "x/lr=0.1 seed=1",
    )
    by_path = (str(paths.root), str(paths.status), f"{paths.checkpoints}/..", str(paths.root.resolve()))
    for text in (*by_words, *by_path, "77"):
        paths.checkpoints.mkdir(exist_ok=True)
        found = find(text)
        assert isinstance(found, RunRef) and (found.setting, found.seed, found.label) == (setting, 1, "lr=0.1"), text


def test_what_names_no_run_or_several(cli: Cli) -> None:
    with pytest.raises(RunNotFound, match="fits 2 runs"):
        find("x/lr=0.25")
    with pytest.raises(RunNotFound, match="no run fits 'x/lr=7/0'"):
        find("x/lr=7/0")
    assert find("4711") == JobRef("4711")
    code, said = cli("why", "x/0")
    assert code == 2 and "Traceback" not in said


def test_why_works_without_slurm_and_says_so(cli: Cli) -> None:
    paths = cli.runs()[0]
    paths.root.mkdir(parents=True)
    update_status(paths, status="failed", failure="crash", reason="crashed", attempt=1, exit_code=1, slurm_job_id="5")
    paths.logs.mkdir()
    paths.attempt_log(1).write_text(
        "epoch 1\nTraceback (most recent call last):\nValueError: loss is nan\nunbroken: bye\n"
    )
    code, said = cli("why", "x/lr=0.1/0", "--json")
    verdict = json.loads(said)
    assert code == 0 and verdict["kind"] == "crash"
    assert "ValueError: loss is nan" in verdict["sentence"] and "attempt_1.log" in verdict["sentence"]
    assert any("there is no Slurm here" in line for line in verdict["evidence"])
    assert "snakemake --profile slurm x" in verdict["fix"]  # as it was started last
    code, said = cli("why", "x/lr=0.1/0")
    assert said.startswith("x/") and "\nWhat to do: Read " in said


def test_why_of_a_collection_explains_what_is_not_finished(cli: Cli) -> None:
    crashed, finished = cli.runs()[:2]
    for paths, change in ((crashed, {"status": "failed", "failure": "crash"}), (finished, {"status": "completed"})):
        paths.root.mkdir(parents=True)
        update_status(paths, attempt=1, exit_code=1, **change)
    finished.result.write_text("{}")
    code, said = cli("why", "x")
    assert code == 0
    assert said.startswith("x/") and said.count("What to do:") == 1
    assert said.splitlines()[0].count(crashed.root.parent.name) == 1
    assert said.endswith("x: 1 of 4 runs finished, 2 not started\n")
    code, said = cli("why", "x", "--json")
    assert [verdict["kind"] for verdict in json.loads(said)] == ["crash"]


def test_why_sees_another_settings_directory(cli: Cli) -> None:
    paths = cli.runs()[0]
    write_json(paths.identity, {"collection": "x", "config_hash": "f" * 64, "seed": 0}, durable=False)
    verdict = json.loads(cli("why", "x/lr=0.1/0", "--json")[1])
    assert verdict["kind"] == "identity_mismatch" and "'ffffffffffff'" in verdict["sentence"]


def test_why_asks_slurm_where_it_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(cli.folder / "nothing", monkeypatch)
    verdict = json.loads(cli("why", "9", "--json")[1])
    assert verdict["kind"] == "running" and verdict["job"] == "9"
    assert any("accounting" in line and "not known" in line for line in verdict["evidence"])  # not in the fake's table
    assert ["scontrol", "show", "job", "9"] in slurm.calls()
    code, said = cli("gpu", "9")
    assert code == 1 and "has no GPU" in said


def test_a_slug_is_every_failed_run_for_retry_and_a_list_for_the_others(cli: Cli) -> None:
    runs = cli.runs()
    assert "None of the" in cli("retry", "x")[1]
    for paths in runs[:2]:
        paths.root.mkdir(parents=True)
    update_status(runs[0], status="failed", no_progress_count=3)
    update_status(runs[1], status="preempted", no_progress_count=2)
    code, said = cli("retry", "x")
    assert code == 0 and said.count("may be trained again") == 1
    assert [read_status(paths).no_progress_count for paths in runs[:2]] == [0, 2]
    code, said = cli("preempt", "x")
    assert code == 2 and f"'x' is a collection of {len(runs)} runs; name one of them:" in said


NO_SLURM = "there is no Slurm on this machine (scontrol is not installed); call this on a login node of the cluster"


@pytest.mark.parametrize(
    "words", [["cluster"], ["cluster", "--json"], ["gpu", "4711"], ["preempt", "4711"], ["metrics"]]
)
def test_without_slurm_a_command_that_needs_it_says_one_sentence(cli: Cli, words: list[str]) -> None:
    paths = cli.runs()[0]
    paths.root.mkdir(parents=True)
    update_status(paths, slurm_job_id="5")  # for metrics: there is something to ask for
    code, said = cli(*words)
    command = {"metrics": "sacct", "preempt": "scancel"}.get(words[0], "scontrol")
    assert (code, said) == (1, f"unbroken: {NO_SLURM.replace('scontrol', command)}\n")


def test_without_a_slurm_conf_the_commands_own_words_are_kept_away(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(cli.folder / "nothing", monkeypatch)
    said = "scontrol: error: DNS SRV lookup failed\nscontrol: fatal: Could not establish a configuration source"
    slurm.answer(["scontrol", "show", "config"], stderr=said, code=1)
    assert cli("cluster")[1] == f"unbroken: {NO_SLURM.replace('is not installed', 'finds no slurm.conf')}\n"


def test_why_of_a_job_without_slurm_does_not_claim_that_slurm_was_asked(cli: Cli) -> None:
    verdict = json.loads(cli("why", "4711", "--json")[1])
    assert verdict["kind"] == "unknown" and "Slurm could not be asked" in verdict["sentence"]
    assert "login node" in verdict["fix"]


def test_the_wait_after_a_requeue_is_this_clusters_own(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(cli.folder / "nothing", monkeypatch)
    record = "JobId=12 JobName=x\n   JobState=PENDING Reason=BeginTime Restarts=1 Partition=p PreemptTime=None\n"
    (cli.folder / "job.txt").write_text(record)
    slurm.answer(["scontrol", "show", "job", "12"], str(cli.folder / "job.txt"))
    sentence = json.loads(cli("why", "12", "--json")[1])["sentence"]
    assert "Here that is 9 s after each requeue." in sentence  # cred_expire=8 and the second after it
    slurm.answer(["scontrol", "show", "config"], stderr="scontrol: error: not now", code=1)
    sentence = json.loads(cli("why", "12", "--json")[1])["sentence"]
    assert "after a requeue Slurm sets one" in sentence and "minutes" not in sentence and "Here" not in sentence


def test_the_version(cli: Cli) -> None:
    assert cli("--version") == (0, f"unbroken {__version__}\n")


def test_retry_clears_the_counters_and_keeps_the_checkpoint(cli: Cli) -> None:
    paths = cli.runs()[0]
    paths.checkpoints.mkdir(parents=True)
    paths.last.write_text("weights")
    update_status(
        paths, status="failed", failure="budget", reason="budget used", resubmit_count=51, attempt=9, global_step=40
    )
    code, said = cli("retry", "x/lr=0.1/0")
    assert code == 0 and "from step 40" in said
    status = read_status(paths)
    assert (status.status, status.resubmit_count, status.attempt, status.failure) == ("pending", 0, 9, None)
    assert [event["event"] for event in read_events(paths)] == ["retry_allowed"]
    assert paths.last.read_text() == "weights"


def test_retry_has_nothing_to_clear(cli: Cli) -> None:
    code, said = cli("retry", "x/lr=0.1/0")
    assert code == 1 and "no run directory yet" in said
    paths = cli.runs()[0]
    paths.root.mkdir(parents=True)
    paths.result.write_text("{}")
    assert "is completed" in cli("retry", "x/lr=0.1/0")[1]
    assert cli("retry", "4711")[0] == 2


def test_retry_refuses_while_a_trainer_lives(cli: Cli) -> None:
    held = lease.acquire(cli.runs()[0])
    assert cli("why", "x/lr=0.1/0")[1].splitlines()[-1] == "Nothing to do."
    code, said = cli("retry", "x/lr=0.1/0")
    assert code == 45 and f"process {os.getpid()}" in said
    held.release()
    assert cli("retry", "x/lr=0.1/0")[0] == 0


def test_preempt_without_slurm_signals_the_launcher(cli: Cli) -> None:
    code, said = cli("preempt", "x/lr=0.1/0")
    assert code == 1 and "is not running now" in said
    script = (
        "import signal, sys; from unbroken.run_dir import lease; from unbroken.collection.run_dir import RunPaths;"
        "from pathlib import Path; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(42));"
        f"lease.acquire(RunPaths(Path({str(cli.runs()[0].root)!r}))); print('up', flush=True); signal.pause()"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "up\n"
        code, said = cli("preempt", "x/lr=0.1/0", "--signal", "SIGUSR1")
        assert code == 0 and f"process {holder.pid}" in said
        assert holder.wait(120) == 42
    assert signal.SIGUSR1
    code, said = cli("preempt", "x/lr=0.1/0", "--signal", "KILL")
    assert code == 1 and "TERM, USR1, USR2, INT" in said


def test_metrics_ask_for_all_jobs_of_all_attempts_at_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has had a Slurm job yet" in cli("metrics")[1]
    first, second, *_ = cli.runs()
    for paths, old, new in ((first, "1", "2"), (second, "3", "6")):
        paths.root.mkdir(parents=True)
        append_event(paths, "run_started", 1, slurm_job_id=old)
        update_status(paths, slurm_job_id=new)
    slurm = FakeSlurm(cli.folder / "nothing", monkeypatch)
    sacct = next(known["argv"] for known in slurm._calls if known["argv"][0] == "sacct")  # type: ignore[index]
    slurm.answer([*sacct[:-1], "--jobs=1,2,3,6"], "sacct.txt")  # type: ignore[index]
    code, said = cli("metrics", "--json", "--csv", "out/metrics.csv")
    records = json.loads(said)["runs"]
    assert code == 0 and [record["attempts"] for record in records] == [3, 1]
    assert len([call for call in slurm.calls() if call[0] == "sacct"]) == 1
    assert Path("out/metrics.csv").read_text().startswith("run,label,state,jobs,attempts")


@pytest.mark.parametrize("name", ["status", "why", "metrics", "cluster", "gpu", "preempt", "retry"])
def test_help_is_there(cli: Cli, name: str) -> None:
    code, said = cli(name, "--help")
    assert code == 0 and "Usage: unbroken " in said and "Options" in said

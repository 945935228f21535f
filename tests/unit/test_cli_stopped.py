"""`unbroken status` on runs whose launcher was killed: they claim to be running, and nobody trains them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli_kit import Cli
from tests.unit.fake_slurm import FakeSlurm

from unbroken.cli.queue import Queue
from unbroken.cli.rows import collection_rows
from unbroken.collection import load_collection
from unbroken.collection.run_dir import RunPaths
from unbroken.report.records import read_record
from unbroken.run_dir.holder import Holder, boot_id
from unbroken.run_dir.status import update_status
from unbroken.slurm import holders
from unbroken.slurm.accounting_rows import SEPARATOR

CLUSTER = "unbroken2d0e"
"""As the fake's scontrol says."""
BEGAN = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """Two runs, no Slurm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("SLURM_CLUSTER_NAME", raising=False)
    holders._cluster_here.cache_clear()
    cli = Cli(tmp_path, capsys)
    cli.add()
    yield cli
    holders._cluster_here.cache_clear()


@pytest.fixture
def slurm(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Its queue is empty, it has forgotten job 7, and its name is that of ``far_away``'s cluster."""
    fake = FakeSlurm(cli.folder / "nothing", monkeypatch)
    fake.answer(["scontrol", "show", "job", "7"], stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)
    squeue = next(known["argv"] for known in fake._calls if known["argv"][-1:] == ["--me"])  # type: ignore[index]
    fake.answer(squeue)  # type: ignore[arg-type]
    return fake


def running(paths: RunPaths, **changes: Any) -> None:
    paths.root.mkdir(parents=True, exist_ok=True)
    values = {"attempt": 1, "global_step": 5, "total_steps": 9, "started_at": BEGAN, "host": "n1", **changes}
    update_status(paths, durable=False, status="running", **values)


def far_away(paths: RunPaths, job_id: str | None = "7", **changes: Any) -> None:
    """A lease of another machine's process, never released."""
    paths.leases.mkdir(parents=True, exist_ok=True)
    elsewhere = {"number": 1, "host": "n1", "boot_id": "another", **changes}
    made = replace(Holder.me("other", BEGAN, 5.0, job_id, 0), **elsewhere)
    (paths.leases / "000001.json").write_bytes(made.dump())


def why(cli: Cli, paths: RunPaths) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("why", f"x/{paths.root.parent.name}/0", "--json")[1])
    return found


def row_with(paths: RunPaths, jobs: list[dict[str, str]], why_not: str | None = None) -> dict[str, Any]:
    """The run's row where the queue holds these jobs."""
    setting = paths.root.parent.name
    statuses = {(setting, 0): json.loads(paths.status.read_text())}
    known = {"settings": [[setting, "base"]], "seeds": [0]}
    (row,) = collection_rows("x", known, "runs", statuses, Queue({"jobs": jobs, "why_not": why_not}))
    return row


def rows(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("status", "--json")[1])["collections"]["x"]["runs"]
    return found


def test_a_killed_launcher_on_this_machine_leaves_a_stopped_run(cli: Cli) -> None:
    paths = cli.runs()[0]
    script = (
        "import signal; from unbroken.run_dir import lease; from unbroken.collection.run_dir import RunPaths;"
        f"from pathlib import Path; lease.acquire(RunPaths(Path({str(paths.root)!r}))); print('up', flush=True);"
        "signal.pause()"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "up\n"
        running(paths)
        assert rows(cli)[0]["status"] == "running"
        holder.kill()
        holder.wait()
    code, said = cli("status")
    assert code == 0 and "x: 2 runs: 1 pending, 1 stopped;" in said
    row, verdict = rows(cli)[0], why(cli, paths)
    assert row["status"] == "stopped" and row["verdict"] == verdict["kind"] == "lost"
    assert verdict["sentence"].endswith(row["reason"]) and "eta_s" not in row


@pytest.mark.parametrize(
    ("state", "code", "status", "kind"),
    [("CANCELLED by 1000", "0:9", "cancelled", "cancelled"), ("NODE_FAIL", "0:0", "stopped", "node_failure")],
)
def test_a_run_whose_job_is_gone_stands_as_why_tells(
    cli: Cli, slurm: FakeSlurm, state: str, code: str, status: str, kind: str
) -> None:
    paths = cli.runs()[0]
    far_away(paths, slurm_cluster=CLUSTER)
    running(paths, slurm_job_id="7")
    row, verdict = rows(cli)[0], why(cli, paths)
    assert row["status"] == "stopped" and row["verdict"] == verdict["kind"] == "lost"  # accounting does not answer
    times = ["2026-01-01T00:00:00"] * 4
    fields = ["7", "7", state, code, "0:0", "normal", "n1", *times, "60", "60", "1", "60", "00:30.000", "1G", *[""] * 5]
    (cli.folder / "sacct.txt").write_text(SEPARATOR.join(fields) + "\n")
    sacct = next(argv for argv in slurm.calls() if argv[0] == "sacct")
    slurm.answer(sacct, str(cli.folder / "sacct.txt"))
    before = len(slurm.calls())
    row = rows(cli)[0]
    asked = [argv[0] for argv in slurm.calls()[before:]]
    assert (asked.count("squeue"), asked.count("sacct")) == (1, 1)
    verdict = why(cli, paths)
    assert (row["status"], row["verdict"], verdict["kind"]) == (status, kind, kind)
    assert verdict["sentence"].endswith(row["reason"])
    assert f"1 {status}" in cli("status")[1]
    run = next(load_collection(cli.collections / "x.yaml").runs())
    assert read_record(run, Path("runs")).state == "preempted"
    assert cli("retry", f"x/{paths.root.parent.name}/0")[0] == 0  # nobody holds it


def test_what_slurm_cannot_know_is_left_as_it_is_written(cli: Cli, slurm: FakeSlurm) -> None:
    first, second = cli.runs()
    far_away(first, slurm_cluster="another cluster")
    running(first, slurm_job_id="7")
    far_away(second, job_id=None)  # outside Slurm
    running(second)
    assert [row["status"] for row in rows(cli)] == ["running", "running"]
    far_away(first, slurm_cluster=CLUSTER)
    assert rows(cli)[0]["status"] == "stopped"
    update_status(first, started_at="2999-01-01T00:00:00.000Z")  # after the queue was asked
    assert rows(cli)[0]["status"] == "running"


def test_a_queue_that_did_not_answer_says_nothing_of_a_job(cli: Cli, slurm: FakeSlurm) -> None:
    paths = cli.runs()[0]
    far_away(paths, slurm_cluster=CLUSTER)
    running(paths, slurm_job_id="7")
    for why_not, status in ((None, "stopped"), ("slurmctld is away", "running"), ("", "running")):
        assert row_with(paths, [], why_not)["status"] == status


def test_a_run_whose_job_slurm_has_stands_as_its_job(cli: Cli, slurm: FakeSlurm) -> None:
    paths = cli.runs()[0]
    far_away(paths, slurm_cluster=CLUSTER)
    running(paths, slurm_job_id="7")
    base = {"job_id": "7", "raw_id": "7", "reason": "BeginTime", "nodes": "n1", "comment": "", "workdir": "/"}
    row = row_with(paths, [{**base, "state": "PENDING"}])
    assert row["status"] == "stopped" and row["reason"].startswith("queued: ")
    assert row_with(paths, [{**base, "state": "RUNNING"}])["status"] == "running"
    row = row_with(paths, [{**base, "state": "COMPLETING"}])
    assert (row["status"], row["reason"]) == ("running", "its job is ending")
    update_status(paths, host=os.uname().nodename)  # in an allocation that goes on without the launcher
    far_away(paths, host=os.uname().nodename, boot_id=boot_id(), process_start="another process")
    assert row_with(paths, [{**base, "state": "RUNNING"}])["status"] == "stopped"


def test_a_run_that_ended_between_two_readings_is_shown_as_it_ended(cli: Cli) -> None:
    first, second = cli.runs()
    for paths in (first, second):
        running(paths)
    setting = first.root.parent.name
    stale = {(setting, seed): json.loads(paths.status.read_text()) for seed, paths in enumerate((first, second))}
    update_status(first, status="preempted", reason="stopped (SIGINT); state saved")
    second.result.write_text("{}")
    known = {"settings": [[setting, "base"]], "seeds": [0, 1]}
    found = list(collection_rows("x", known, "runs", stale, Queue({"jobs": [], "why_not": ""})))
    assert [row["status"] for row in found] == ["preempted", "completed"]
    assert found[0]["reason"] == "stopped (SIGINT); state saved"

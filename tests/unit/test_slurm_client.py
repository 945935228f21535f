"""The client reads what Slurm printed, and tells its failures apart."""

import stat
from pathlib import Path

import pytest
from tests.unit.fake_slurm import FakeSlurm

from unbroken.slurm import client
from unbroken.slurm.command import TIME_FORMAT, clean_environment, failure, run


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path, monkeypatch)


def test_a_job_whose_name_and_comment_pose_as_fields_is_read_right(slurm: FakeSlurm) -> None:
    job = client.show_job(9)
    assert job is not None
    assert job["JobName"] == "odd|name JobState=FAILED"
    assert job["JobState"] == "RUNNING"
    assert job["Comment"] == "x Reason=None"
    assert (job["Restarts"], job["Requeue"], job["ReqB:S:C:T"]) == ("0", "1", "0:0:*:*")


def test_an_unknown_job_is_none_and_no_error(slurm: FakeSlurm) -> None:
    assert client.show_job("424242") is None
    assert client.queue(["424242"]) == []


def test_an_array_gives_its_own_record_first(slurm: FakeSlurm) -> None:
    records = client.show_jobs("10")
    assert {record["ArrayJobId"] for record in records} == {"10"}
    job = client.show_job("10")
    assert job is not None and job["JobId"] == "10"


def test_the_queue_is_one_call_and_shows_every_task_of_an_array(slurm: FakeSlurm) -> None:
    jobs = client.queue(["4", 11, "10"])
    assert [job.job_id for job in jobs] == ["4", "11", "10_1", "10_2"]
    assert len(slurm.calls()) == 1
    states = {job.job_id: (job.state, job.reason) for job in jobs}
    assert states["4"] == ("PENDING", "PartitionDown")
    assert states["11"] == ("CANCELLED", "None")
    assert states["10_2"] == ("PENDING", "JobHeldUser")


def test_no_ids_ask_nothing_and_me_asks_for_mine(slurm: FakeSlurm) -> None:
    assert client.queue([]) == []
    assert slurm.calls() == []
    assert "odd|name JobState=FAILED" in {job.name for job in client.queue(me=True)}
    assert "--me" in slurm.calls()[0]


def test_accounting_rows_of_steps_requeues_and_a_cancellation(slurm: FakeSlurm) -> None:
    rows = client.accounting(["1", "2", "3", "6", "11", "11"])
    first = [(row.step, row.state, row.restart) for row in rows if row.raw_id == "1" and row.step != "0"]
    assert first == [("", "REQUEUED", 0), ("batch", "FAILED", 0), ("", "FAILED", 1), ("batch", "FAILED", 1)]
    by_id = {(row.job_id, row.step): row for row in rows}
    killed = by_id["6", "0"]
    assert (killed.state, killed.exit_code, killed.signal) == ("OUT_OF_MEMORY", 0, 125)
    assert (by_id["6", ""].state, by_id["6", ""].exit_code) == ("FAILED", 1)
    assert (by_id["11", ""].state, by_id["11", ""].cancelled_by) == ("CANCELLED", 0)
    held = by_id["3", ""]
    assert (held.started, held.eligible, held.limit_s, held.requested_tres["mem"]) == (None, None, 3600, "1000M")
    assert by_id["2_1", ""].raw_id == "7"  # a task is found by its own number, not by its parent's
    assert by_id["2_3", ""].raw_id == "2"
    assert by_id["1", "batch"].max_rss_mib is not None and by_id["1", ""].max_rss_mib is None
    assert by_id["1", ""].started is not None and "+" in by_id["1", ""].started


def test_the_configuration(slurm: FakeSlurm) -> None:
    config = client.show_config()
    assert config["KillWait"] == "15 sec"
    assert config["AuthInfo"].endswith("cred_expire=8")
    assert config["SLURM_VERSION"] == "22.05.8"


@pytest.mark.parametrize("hostile", ["--help", "1;reboot", "$(id)", "", "1 2", "abc", "-1", "1,2", "1\n2"])
def test_what_is_no_job_id_never_reaches_a_command(slurm: FakeSlurm, hostile: str) -> None:
    for call in (client.show_job, client.requeue):
        with pytest.raises(client.SlurmRefused, match="not a Slurm job id"):
            call(hostile)
    with pytest.raises(client.SlurmRefused):
        client.queue([hostile])
    with pytest.raises(client.SlurmRefused):
        client.cancel([hostile])
    assert slurm.calls() == []


def test_a_signal_must_be_one(slurm: FakeSlurm) -> None:
    with pytest.raises(client.SlurmRefused, match="not a signal name"):
        client.send_signal(3, "USR1 --full")
    slurm.answer(["scancel", "--signal=USR1", "3"])
    client.send_signal(3, "SIGUSR1")


def test_a_missing_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not client.available()
    with pytest.raises(client.SlurmMissing, match="scontrol is not installed"):
        client.show_job(1)


def test_a_command_that_does_not_answer(tmp_path: Path) -> None:
    script = tmp_path / "deaf"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(client.SlurmUnreachable, match=r"within 0.1 s"):
        run([str(script)], timeout_s=0.1)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", client.SlurmUnreachable),
        ("slurm_load_jobs error: Socket timed out on send/recv operation", client.SlurmUnreachable),
        ("sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:6819: "
         "Connection refused", client.SlurmUnreachable),
        ("sacct: error: Problem talking to the database: Connection refused", client.SlurmUnreachable),
        ("Slurm accounting storage is disabled", client.AccountingDisabled),
        ("scontrol: fatal: Could not establish a configuration source", client.SlurmMissing),
        ("Requested operation is presently disabled for job 7", client.SlurmRefused),
        ("scancel: error: Kill job error on job id 7: Access/permission denied", client.SlurmRefused),
    ],
)  # fmt: skip
def test_failures_are_told_apart(message: str, kind: type[Exception]) -> None:
    assert type(failure("sacct", 1, message)) is kind


def test_requeue_says_what_slurm_said(slurm: FakeSlurm) -> None:
    slurm.answer(["scontrol", "requeue", "9"], stderr="Requested operation is presently disabled for job 9\n", code=1)
    with pytest.raises(client.SlurmRefused, match="presently disabled"):
        client.requeue(9)


def test_a_persons_display_options_do_not_reach_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%j")
    monkeypatch.setenv("SACCT_FORMAT", "jobid")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    environment = clean_environment()
    assert environment["SLURM_TIME_FORMAT"] == TIME_FORMAT
    assert not {"SQUEUE_FORMAT", "SACCT_FORMAT"} & set(environment)

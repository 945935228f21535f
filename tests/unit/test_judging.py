"""What the executor does with a job, for everything Slurm and the run directory may say."""

import logging
from dataclasses import fields as fields_of
from dataclasses import replace
from types import SimpleNamespace

import pytest
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from tests.unit.test_slurm_diagnose import row

from snakemake_executor_plugin_unbroken import interventions
from snakemake_executor_plugin_unbroken.adoption import read_live_jobs
from snakemake_executor_plugin_unbroken.interventions import Interventions
from snakemake_executor_plugin_unbroken.jobs import job_name
from snakemake_executor_plugin_unbroken.judging import SILENCE_LIMIT_S, Action, Evidence, judge
from snakemake_executor_plugin_unbroken.queue import Queue, Watched
from unbroken.errors import SlurmError
from unbroken.run_dir.holder import Holder
from unbroken.run_dir.status import RunStatus
from unbroken.slurm import client
from unbroken.slurm.parse import FIELD, RECORD, QueuedJob
from unbroken.slurm.submission import advice, check_extra, is_transient

RUNNING = RunStatus(status="running", attempt=1)
DONE = RunStatus(status="completed", attempt=1)
PREEMPTED = RunStatus(status="preempted", attempt=1, reason="preempted by Slurm (SIGTERM); state saved")
CANCELLED = RunStatus(status="preempted", attempt=1, reason="cancelled by a person (SIGTERM); state saved")
CRASHED = RunStatus(status="failed", attempt=1, failure="crash", reason="crashed with exit code 1: ValueError: x")
KILLED = RunStatus(status="failed", attempt=1, failure="killed", reason="signal 9 and not for its memory")
OUT_OF_MEMORY = RunStatus(status="failed", attempt=1, failure="out_of_memory", reason="out of memory")
AT_THE_CAP = RunStatus(
    status="failed",
    attempt=2,
    failure="out_of_memory",
    reason="out of memory (signal 9): it asked for 700 MB and used 700 MB; that is the cap (memory_cap_mb 700)",
)
BUDGET = RunStatus(status="failed", attempt=9, failure="budget", reason="budget used")
NEVER = RunStatus()


@pytest.mark.parametrize(
    ("state", "run", "has_result", "action"),
    [
        ("RUNNING", RUNNING, False, Action.WAIT),
        ("PENDING", PREEMPTED, False, Action.WAIT),
        ("COMPLETING", DONE, True, Action.WAIT),
        ("SUSPENDED", RUNNING, False, Action.WAIT),
        ("REQUEUED", PREEMPTED, False, Action.WAIT),
        ("A_STATE_OF_THE_FUTURE", RUNNING, False, Action.WAIT),
        ("COMPLETED", DONE, True, Action.SUCCESS),
        ("COMPLETED", DONE, False, Action.SUCCESS),  # c27: the result is late; Snakemake waits for it
        ("COMPLETED", RUNNING, False, Action.SUCCESS),  # c27: so is the status
        ("COMPLETED", PREEMPTED, False, Action.RETRY),
        ("COMPLETED", NEVER, False, Action.SUCCESS),  # not a run's job: its outputs are checked by Snakemake
        ("FAILED", DONE, True, Action.SUCCESS),  # a signal that came after the result
        ("CANCELLED", RUNNING, False, Action.FAIL),
        ("CANCELLED by 0", PREEMPTED, False, Action.FAIL),
        ("CANCELLED by 1000", NEVER, False, Action.FAIL),
        ("FAILED", CANCELLED, False, Action.FAIL),
        ("PREEMPTED", RUNNING, False, Action.RESUBMIT),
        ("PREEMPTED", PREEMPTED, False, Action.RESUBMIT),
        ("TIMEOUT", RUNNING, False, Action.RESUBMIT),
        ("NODE_FAIL", RUNNING, False, Action.RESUBMIT),
        ("BOOT_FAIL", NEVER, False, Action.RESUBMIT),
        ("FAILED", PREEMPTED, False, Action.RESUBMIT),
        ("FAILED", RUNNING, False, Action.RESUBMIT),
        ("FAILED", CRASHED, False, Action.FAIL),
        ("FAILED", BUDGET, False, Action.FAIL),
        ("FAILED", KILLED, False, Action.RETRY),
        ("FAILED", OUT_OF_MEMORY, False, Action.RETRY),
        ("FAILED", AT_THE_CAP, False, Action.FAIL),
        ("OUT_OF_MEMORY", RUNNING, False, Action.RETRY),
        ("FAILED", NEVER, False, Action.RETRY),
        ("DEADLINE", RUNNING, False, Action.FAIL),
    ],
)
def test_what_becomes_of_a_job(state: str, run: RunStatus, has_result: bool, action: Action) -> None:
    judgement = judge(Evidence(state, run, has_result))
    assert judgement.action is action
    assert judgement.message or action in (Action.WAIT, Action.SUCCESS)


@pytest.mark.parametrize("run", [RUNNING, NEVER, PREEMPTED])
def test_c13_a_job_that_slurm_does_not_know_is_waited_for_then_started_again(run: RunStatus) -> None:
    assert judge(Evidence(None, run, False, missed_polls=2)).action is Action.WAIT
    assert judge(Evidence(None, run, False, missed_polls=3)).action in (Action.RESUBMIT, Action.RETRY)


def test_c13_an_unknown_job_is_never_a_success_without_its_result() -> None:
    assert judge(Evidence(None, DONE, True)).action is Action.SUCCESS
    for missed in range(10):
        assert judge(Evidence(None, RUNNING, False, missed_polls=missed)).action is not Action.SUCCESS


def test_c13_a_purged_job_whose_launcher_has_told_its_end_is_judged_at_once() -> None:
    crashed = RunStatus(status="failed", attempt=1, failure="crash", reason="crashed", slurm_job_id="36")
    assert judge(Evidence(None, crashed, False, missed_polls=1, job_id="36")).action is Action.FAIL
    assert judge(Evidence(None, crashed, False, missed_polls=1, job_id="37")).action is Action.WAIT  # another's end


def test_a_job_that_slurm_has_forgotten_is_not_judged_by_the_end_of_another_one() -> None:
    """A controller that dies forgets what it took last; what the run directory says is then an earlier attempt's."""
    for before in (RUNNING, CRASHED, CANCELLED, BUDGET, PREEMPTED, NEVER):
        earlier = replace(before, slurm_job_id="36")
        judgement = judge(Evidence(None, earlier, False, missed_polls=3, job_id="37"))
        assert (judgement.action, "has not begun" in judgement.message) == (Action.RESUBMIT, True), before


def test_a_job_that_its_node_could_not_start_is_released_a_few_times() -> None:
    launch_failed = "launch failed requeued held"
    held = Evidence("PENDING", NEVER, False, pending_reason=launch_failed)
    for releases, action in ((0, Action.RELEASE), (2, Action.RELEASE), (3, Action.WAIT)):
        assert judge(replace(held, releases=releases)).action is action
    assert judge(Evidence("PENDING", NEVER, False, pending_reason="JobHeldUser")).action is Action.WAIT
    assert judge(replace(held, being_stopped=True)).action is Action.WAIT


def test_a_running_job_without_a_sign_of_life_is_cancelled_and_submitted_again() -> None:
    silent = Evidence("RUNNING", RUNNING, False, silent_s=SILENCE_LIMIT_S)
    assert judge(silent).action is Action.CANCEL
    for other in (
        replace(silent, silent_s=SILENCE_LIMIT_S - 1),
        replace(silent, state="COMPLETING"),
        replace(silent, state="SUSPENDED"),
        replace(silent, cancelled_by_us=True),
    ):
        assert judge(other).action is Action.WAIT
    ended = replace(silent, state="CANCELLED", run=CANCELLED, cancelled_by_us=True)
    assert judge(ended).action is Action.RESUBMIT
    assert judge(replace(ended, state=None, missed_polls=3)).action is Action.RESUBMIT
    assert judge(replace(ended, run=DONE, has_result=True)).action is Action.SUCCESS


def silences(monkeypatch: pytest.MonkeyPatch, started: str, looks: list[tuple[float, float]]) -> list[float]:
    """How silent job 36 is at each look: at a time of the watch's clock, with the lease's last beat then."""
    look = looks[0]
    found, watch = [], Interventions(logging.getLogger())
    holder = Holder.me("t", "2026-01-01T00:00:00Z", 5.0, "36", 0)
    monkeypatch.setattr(interventions, "time", SimpleNamespace(monotonic=lambda: look[0]))
    monkeypatch.setattr(interventions, "last_beat", lambda paths: (holder, look[1]))
    monkeypatch.setattr(interventions, "paths_of", lambda job: None)
    for look in looks:  # noqa: B007
        found.append(watch.silent_s(SubmittedJobInfo("job", external_jobid="36"), "RUNNING", started))
    return found


def test_silence_is_what_was_seen_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = "2026-01-01T00:00:01+00:00"
    assert silences(monkeypatch, now, [(0, 1), (10, 1), (30, 1), (40, 2), (50, 2)]) == [0, 10, 30, 0, 10]
    # A file system that hung for an hour, with whoever looks: nobody was seen to be silent for so long.
    assert silences(monkeypatch, now, [(0, 1), (3600, 1), (3610, 1)]) == [0, 60, 70]
    # The lease is from before the job's last requeue: its launcher has not begun yet.
    assert silences(monkeypatch, "2026-01-01T00:10:00+00:00", [(0, 1), (50, 1)]) == [0, 0]


def queued(name: str = "", comment: str = "(null)") -> QueuedJob:
    fields = {field.name: "" for field in fields_of(QueuedJob)}
    return QueuedJob(**{**fields, "job_id": "36", "state": "RUNNING", "name": name, "comment": comment})


def states(monkeypatch: pytest.MonkeyPatch, jobs: list[QueuedJob], rows: list[object]) -> object:
    """State and reason of job 36, ours, called `x` and commented `rule_x`."""
    monkeypatch.setattr(client, "queue", lambda ids: jobs)
    monkeypatch.setattr(client, "accounting", lambda ids: rows)
    ours = Watched("36", frozenset({"x", "rule_x"}))
    found = Queue(logging.getLogger()).states([ours])
    assert found is not None
    return found[ours][:2] if ours in found else None


def test_a_number_that_another_job_has_now_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(monkeypatch, [queued("x", "rule_x")], []) == ("RUNNING", "")
    assert states(monkeypatch, [queued("x")], []) == ("RUNNING", "")  # a site that removes comments
    assert states(monkeypatch, [queued("site-x", "rule_x")], []) == ("RUNNING", "")
    assert states(monkeypatch, [queued("y", "rule_y")], []) is None
    assert states(monkeypatch, [queued("wrap")], []) is None


@pytest.mark.parametrize(
    ("state", "cancelled_by", "known"),
    [
        ("COMPLETED", None, True),
        ("CANCELLED", 1000, True),
        ("CANCELLED", None, False),
        ("RUNNING", None, False),
        ("PENDING", None, False),
        ("REQUEUED", None, False),
    ],
)
def test_only_an_end_counts_of_what_accounting_alone_knows(
    monkeypatch: pytest.MonkeyPatch, state: str, cancelled_by: int | None, known: bool
) -> None:
    ended = row(state, job_id="36", raw_id="36", cancelled_by=cancelled_by)
    assert states(monkeypatch, [], [ended, row("CANCELLED", step="batch")]) == ((state, "") if known else None)
    others = replace(ended, name="y")
    assert states(monkeypatch, [], [others]) is None  # years ago, or since: the number came again
    assert states(monkeypatch, [], [ended, others]) == ((state, "") if known else None)


def test_resubmission_without_progress_ends() -> None:
    assert judge(Evidence("NODE_FAIL", RUNNING, False, stalled_resubmissions=2)).action is Action.RESUBMIT
    assert judge(Evidence("NODE_FAIL", RUNNING, False, stalled_resubmissions=3)).action is Action.FAIL


def test_a_job_whose_launcher_found_the_run_held_waits_for_the_holder() -> None:
    held = Evidence("FAILED", RUNNING, False, held_by="process 7 on n1, Slurm job 12", holder_job="12")
    assert (judge(held).action, judge(held).adopt) == (Action.ADOPT, "12")
    by_hand = judge(Evidence("FAILED", RUNNING, False, held_by="process 7 on login1"))
    assert by_hand.action is Action.FAIL and "process 7 on login1" in by_hand.message


def test_nothing_is_submitted_again_while_snakemake_is_being_stopped() -> None:
    assert judge(Evidence("FAILED", PREEMPTED, False, being_stopped=True)).action is Action.FAIL


def test_a_finished_run_whose_own_job_was_requeued_is_done() -> None:
    own = RunStatus(status="completed", attempt=2, slurm_job_id="7")
    assert judge(Evidence("PENDING", own, True, job_id="7")).action is Action.DONE
    assert judge(Evidence("RUNNING", own, True, job_id="7")).action is Action.WAIT
    assert judge(Evidence("PENDING", own, True, job_id="8")).action is Action.WAIT  # --forcerun: an old result


def test_a_job_that_can_never_start_is_not_waited_for() -> None:
    assert judge(Evidence("PENDING", NEVER, False, pending_reason="DependencyNeverSatisfied")).action is Action.FAIL
    assert judge(Evidence("PENDING", NEVER, False, pending_reason="Resources")).action is Action.WAIT


def test_c28_job_names_are_readable_and_safe() -> None:
    assert job_name("demo hidden=16 lr=0.001 seed=3") == "demo_hidden=16_lr=0.001_seed=3"
    assert job_name("$(reboot) 'x'\n\"y\"") == "reboot_x_y"
    assert len(job_name("x" * 500)) == 64
    assert job_name("'") == "unbroken"


def test_live_jobs_are_known_by_comment_and_folder(tmp_path: object) -> None:
    text = f"{RECORD}36{FIELD}/tmp/a{FIELD}rule_train_x_wildcards_x_1_0\n{RECORD}37{FIELD}/tmp/b{FIELD}(null)\n"
    assert read_live_jobs(text) == {("rule_train_x_wildcards_x_1_0", "/tmp/a"): "36", ("(null)", "/tmp/b"): "37"}


@pytest.mark.parametrize("extra", ["--signal=B:USR1@60", "'--signal=B:USR2@120' --x", "--signal RB:USR1@60"])
def test_c06_a_warning_that_cannot_arrive_is_refused(extra: str) -> None:
    with pytest.raises(SlurmError, match="never reaches the trainer"):
        check_extra(extra)


def test_a_warning_that_arrives_is_not_refused() -> None:
    check_extra("'--signal=USR1@120' --nice=10")
    check_extra("")


def test_advice_names_the_key_to_change() -> None:
    refused = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    assert advice(refused).startswith("set slurm_account")
    assert advice("sbatch: error: invalid partition specified: nosuch").startswith("set slurm_partition")
    assert "profiles/slurm/config.yaml" in advice("sbatch: error: something new")


def test_which_submission_errors_pass() -> None:
    assert is_transient(
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"
    )
    assert is_transient("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
    assert is_transient("error: QOSMaxSubmitJobPerUserLimit")
    assert not is_transient("sbatch: error: invalid partition specified: nosuch")

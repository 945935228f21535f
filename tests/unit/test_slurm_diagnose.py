"""The verdict, a pure function: one line of evidence each. The same ends for real: tests/slurm/test_why.py."""

import re
from dataclasses import replace
from typing import Any

import pytest

from unbroken.run_dir.status import RunStatus
from unbroken.slurm.accounting_rows import AccountingRow
from unbroken.slurm.diagnose import diagnose
from unbroken.slurm.verdict import Evidence, Verdict

COMMAND = "snakemake --profile slurm demo"


def row(state: str, step: str = "", code: int = 0, signal: int = 0, restart: int = 0, **more: Any) -> AccountingRow:
    """A row of job 7, started unless it is pending."""
    started = None if state == "PENDING" else "2026-01-01T00:00:00+00:00"
    values: dict[str, Any] = {
        **{"job_id": "7", "raw_id": "7", "step": step, "name": "x", "state": state, "cancelled_by": None},
        **{"exit_code": code, "signal": signal, "derived_exit_code": None, "partition": "normal", "nodes": "n1"},
        **{"submitted": started, "eligible": started, "started": started, "ended": started, "elapsed_s": 60},
        **{"limit_s": 3600, "cpus": 1, "cpu_allocated_s": 60, "cpu_used_s": 30.0, "requested_memory": "1G"},
        **{
            "max_rss_mib": None,
            "requested_tres": {"mem": "1G"},
            "allocated_tres": {},
            "reason": "",
            "restart": restart,
        },
    }
    return AccountingRow(**{**values, **more})


OOM = row("OUT_OF_MEMORY", "0", 0, 125)


def run(status: RunStatus | None = None, **more: Any) -> Evidence:
    return Evidence(name="demo/ab/0", command=COMMAND, status=status or RunStatus(), **more)


def failed(failure: str, reason: str, **more: Any) -> RunStatus:
    return RunStatus(status="failed", failure=failure, reason=reason, attempt=1, slurm_job_id="7", **more)


def preempted(reason: str, **more: Any) -> RunStatus:
    return RunStatus(status="preempted", reason=reason, attempt=1, exit_code=42, global_step=50, **more)


RUNNING = RunStatus(status="running", attempt=1, global_step=50, total_steps=100, host="n1", slurm_job_id="7")
DIVERGED = {"event": "loss_not_finite", "global_step": 40, "loss": "nan"}
NO_SPACE = "CheckpointError: cannot save a checkpoint in runs/x: no space (No space left on device): free some space"
ALIVE = {"JobState": "RUNNING", "PreemptTime": "None", "NodeList": "n1", "Restarts": "0", "Reason": "None"}


@pytest.mark.parametrize(
    ("evidence", "kind", "words"),
    [
        (run(RunStatus(status="completed", attempt=2), has_result=True), "completed", "after 2 attempts"),
        (run(RunStatus(status="completed", attempt=1), has_result=True, events=[DIVERGED]), "completed",
         "result.json is there. But its loss was nan at step 40."),
        (run(has_result=True, identity_problem="config_identity.json says seed '1'"), "identity_mismatch", "seed '1'"),
        (run(RunStatus(status="completed", attempt=1)), "no_result", "says completed"),
        (run(), "never_started", "never been started"),
        (run(RUNNING, job_id="7", job=ALIVE, lease="process 1 on n1"), "running", "50 of 100"),
        (run(RUNNING, lease="process 1 on here"), "running", "is running"),
        (run(RUNNING, job_id="7", job={**ALIVE, "PreemptTime": "2026-01-01T00:00:00"}), "running", "being preempted"),
        (run(RUNNING), "lost", "neither its process nor its job is alive"),
        (run(RUNNING, job_id="7", rows=[row("NODE_FAIL")]), "node_failure", "(n1) failed under it"),
        (run(RUNNING, job_id="7", rows=[row("TIMEOUT", code=0, signal=1)]), "time_limit", "limit of 60 min"),
        (run(RUNNING, job_id="7", rows=[row("FAILED", code=1), OOM]), "out_of_memory", ""),
        (run(RUNNING, job_id="7", rows=[row("PREEMPTED")]), "preempted", "precedence"),
        (run(RUNNING, job_id="7", rows=[row("FAILED", code=0, signal=9)]), "killed", "SIGKILL"),
        (run(RUNNING, job_id="7", rows=[row("FAILED", code=3)]), "lost", ""),
        (run(failed("crash", "crashed", exit_code=1), log="a.log", log_tail="Traceback\nValueError: nan\n"), "crash",
         "ValueError: nan"),
        (run(failed("crash", f"crashed with exit code 1: {NO_SPACE}", exit_code=1), log="a.log", log_tail="step 4\n"),
         "crash", f"it crashed: a disk is full: {NO_SPACE}. Its log: a.log"),
        (run(failed("crash", "crashed", exit_code=1), log_tail="OSError: [Errno 28] No space left on device\n"),
         "crash", "it crashed: a disk is full: OSError: [Errno 28] No space left on device."),
        (run(failed("crash", "crashed", exit_code=1), log_tail="Traceback\nEOFError: marshal data too short\n"),
         "crash", "it crashed: Python had written one of its compiled files short, on a disk that was full then"),
        (run(failed("crash", "crashed", exit_code=1), log_tail="torch.OutOfMemoryError: CUDA out of memory."), "crash",
         "memory of the GPU"),
        (run(failed("crash", "crashed", exit_code=1), job_id="7", rows=[row("FAILED"), OOM]),
         "out_of_memory", "1024 MB"),
        (run(failed("killed", "signal 9"), log_tail="slurmstepd: error: 1 oom-kill event"), "out_of_memory", ""),
        (run(failed("killed", "signal 9 and not for its memory")), "killed", "not for its memory"),
        (run(failed("out_of_memory", "out of memory", mem_mb_asked=1000, mem_mb_used=990)), "out_of_memory",
         "asked for 1000 MB and used 990 MB"),
        (run(failed("no_result", "ended without a result")), "no_result", "no result.json"),
        (run(failed("budget", "budget used: 51 resumable exits")), "gave_up", "51 resumable exits"),
        (run(failed("no_progress", "no progress: 3 attempts")), "gave_up", "3 attempts"),
        (run(RunStatus(status="failed", attempt=1, reason="budget used: 3")), "gave_up", "budget used"),
        (run(preempted("cancelled by a person (SIGTERM); state saved")), "cancelled", "by a person"),
        (run(preempted("preempted by Slurm (SIGTERM); state saved")), "preempted", "Saved up to step 50."),
        (run(preempted("time limit (SIGUSR1); state saved")), "time_limit", "SIGUSR1"),
        (run(preempted("stopped (SIGTERM); state saved"), job_id="7", rows=[row("CANCELLED", cancelled_by=5)]),
         "cancelled", ""),
        (run(preempted("stopped (SIGTERM); state saved"), job_id="7", rows=[row("NODE_FAIL")]), "node_failure", ""),
        (run(preempted("preempted by Slurm; state saved"), job_id="7",
             job={"JobState": "PENDING", "Reason": "BeginTime", "Partition": "p"}), "pending", "preempted by Slurm"),
        (run(job_id="7", job={"JobState": "PENDING", "Reason": "JobHeldUser"}), "held", "JobHeldUser"),
        (run(job_id="7", job={"JobState": "REQUEUE_HOLD", "Reason": "launch failed"}), "held", ""),
        (run(job_id="7", job={"JobState": "PENDING", "Reason": "PartitionDown", "Partition": "p"}), "bad_partition",
         "'p'"),
        (run(job_id="7", rows=[row("PENDING", reason="Resources")], controller_answered=False), "pending", "Resources"),
        (run(job_id="7", rows=[row("CANCELLED", cancelled_by=1000, nodes="")]), "cancelled", "user id 1000 before"),
        (run(RUNNING, job_id="7", rows=[row("BOOT_FAIL")]), "node_failure", "booted"),
        (run(RUNNING, job_id="7", rows=[row("DEADLINE")]), "time_limit", "deadline"),
        (run(job_id="7", rows=[row("FAILED", code=44), row("FAILED", "0", 44)]), "identity_mismatch", ""),
        (Evidence("job 7", job_id="7", rows=[row("FAILED", code=45), row("FAILED", "0", 45)], lease=None,
                  log_tail="unbroken: the run directory is held by process 3 on n2\nsrun: error: 45"), "lease_held",
         "process 3 on n2"),
        (Evidence("job 7", job_id="7", rows=[row("FAILED", code=43)]), "gave_up", ""),
        (Evidence("job 7", job_id="7", rows=[row("FAILED", "0", 42), row("FAILED", code=42)]), "preempted", "42"),
        (Evidence("job 7", job_id="7", rows=[row("FAILED", code=42, elapsed_s=3550)]), "time_limit", "42"),
        (Evidence("job 7", job_id="7", rows=[row("CANCELLED", cancelled_by=5)]), "cancelled", "user id 5"),
        (Evidence("job 7", job_id="7", rows=[row("NODE_FAIL")]), "node_failure", "its node (n1) failed"),
        (Evidence("job 7", job_id="7", job=ALIVE), "running", "it is running on n1"),
        (Evidence("job 7", job_id="7", job={"JobState": "PENDING", "Reason": "Priority"}), "pending", "waits"),
        (run(preempted("stopped (SIGINT); state saved")), "preempted", "it was stopped (SIGINT); state saved"),
        (run(preempted("stopped by itself (no signal); state saved")), "preempted", "it stopped by itself"),
        (Evidence("job 7", job_id="7", rows=[row("COMPLETED")]), "completed", "normally"),
        (Evidence("job 7", job_id="7"), "unknown", "does not know"),
        (Evidence("job 7", job_id="7", rows=[row("QUANTUM_LEAP")]), "unknown", "does not know"),
        (Evidence("job 7", job_id="7", rows=[row("REVOKED")]), "unknown", "federation"),
    ],
)  # fmt: skip
def test_verdict(evidence: Evidence, kind: str, words: str) -> None:
    verdict = diagnose(evidence)
    assert (verdict.kind, words in verdict.sentence) == (kind, True), verdict
    assert verdict.sentence.startswith(evidence.name) and verdict.sentence.endswith((".", ".log"))
    assert verdict.fix or kind == "completed"
    reads_well(verdict, evidence.name)


def reads_well(verdict: Verdict, name: str) -> None:
    """No name and no word twice, no full stop twice, no sentence that begins small."""
    assert verdict.sentence.count(name) == 1, verdict.sentence
    for text in (verdict.sentence, verdict.fix):
        assert ".." not in text and not re.search(r"\b(\w+)\W+\1\b|[.] [a-z]", text), text
    assert verdict.fix[:1] == verdict.fix[:1].upper()


def test_a_requeue_that_looks_cancelled_in_the_controller_is_none() -> None:
    """Seen on the cluster: in `nograce` a job being requeued is COMPLETING with PreemptTime=None, as after scancel."""
    saving = run(RUNNING, job_id="7", job={**ALIVE, "JobState": "COMPLETING"}, rows=[row("PREEMPTED")])
    assert diagnose(saving).kind == "running"
    assert diagnose(replace(saving, rows=[row("CANCELLED", cancelled_by=0)])).kind == "cancelled"


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "CANCELLED"])
def test_a_job_that_the_controller_has_lost_neither_runs_nor_was_it_cancelled(state: str) -> None:
    verdict = diagnose(run(RUNNING, job_id="7", rows=[row(state)]))
    assert (verdict.kind, "neither its process nor its job is alive" in verdict.sentence) == ("lost", True), verdict
    assert any("has lost job 7" in proof for proof in verdict.evidence)
    unknown = diagnose(run(RUNNING, job_id="7", rows=[row("RUNNING")], controller_answered=False))
    assert unknown.kind == "running"


def test_the_newest_attempt_counts_not_an_older_one() -> None:
    rows = [row("NODE_FAIL"), OOM, row("TIMEOUT", restart=1)]
    assert diagnose(run(RUNNING, job_id="7", rows=rows)).kind == "time_limit"


def test_what_could_not_be_asked_and_warnings_stay_visible() -> None:
    events = [{"event": "grace_warning", "warning": "a save takes 40 s, KillWait is 30 s"}]
    verdict = diagnose(run(RUNNING, events=events, notes=["accounting: this cluster keeps none"]))
    assert "not known: accounting: this cluster keeps none" in verdict.evidence
    assert any("KillWait is 30 s" in line for line in verdict.evidence)
    assert COMMAND in verdict.fix

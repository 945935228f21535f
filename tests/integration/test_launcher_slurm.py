"""The launcher inside a Slurm job; scontrol is a small program that answers from files."""

import json
import sys
from pathlib import Path

import pytest

from tests.integration.launcher_kit import GRACEFUL, Run, job_answer, wait_for

SCONTROL = """#!/bin/bash
here={here}
echo "$*" >> $here/calls
if [ "$1" = requeue ]; then
    cp {run}/run_status.json $here/status_then
    cp {run}/events.jsonl $here/events_then
    cat {run}/lease/*.json > $here/leases_then
    if [ -e $here/refuse ]; then echo "scontrol: error: Requested operation is presently disabled" >&2; exit 1; fi
    exit 0
fi
if [ "$2" = config ] && [ -e $here/config ]; then cat $here/config; exit 0; fi
if [ "$2" = partition ] && [ -e $here/partition ]; then cat $here/partition; exit 0; fi
if [ ! -e $here/answer ]; then echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; fi
cat $here/answer
"""


class Cluster:
    """A fake scontrol and the run inside its job."""

    def __init__(self, folder: Path) -> None:
        self.run = Run(folder)
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        scontrol = programs / "scontrol"
        scontrol.write_text(SCONTROL.format(here=folder, run=self.run.paths.root))
        scontrol.chmod(0o755)
        self.run.environment = {"PATH": f"{programs}:/usr/bin:/bin", "SLURM_JOB_ID": "12"}

    def answer(self, **values: str) -> None:
        beside = self.folder / "answer.new"
        beside.write_text(job_answer(**values))
        beside.rename(self.folder / "answer")

    @property
    def requeues(self) -> int:
        return (self.folder / "calls").read_text().splitlines().count("requeue 12")

    def stop(self, **then: str) -> tuple[int, str]:
        """Train, send TERM, and let Slurm show ``then`` from that moment on."""
        process = self.run.python(GRACEFUL).start()
        self.run.ready()
        self.answer(**then)
        process.terminate()
        return self.run.end(process)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    made.answer()
    return made


def test_a_preempted_job_is_requeued_as_the_last_act(cluster: Cluster) -> None:
    code, _ = cluster.stop(PreemptTime="2026-01-01T00:00:00")
    assert code == 42 and cluster.requeues == 1
    then = json.loads((cluster.folder / "status_then").read_text())
    assert (then["status"], then["slurm_job_id"]) == ("preempted", "12")
    assert '"released": true' in (cluster.folder / "leases_then").read_text()
    assert '"requeued"' in (cluster.folder / "events_then").read_text()


CONFIG = "SLURM_VERSION           = {}\nPreemptType             = {}\n"


@pytest.mark.parametrize(
    ("version", "kind", "mode", "requeues"),
    [
        ("24.11.5", "preempt/partition_prio", "REQUEUE", 0),  # Slurm does it; a second one would start it once more
        ("24.11.5", "preempt/partition_prio", "CANCEL", 1),
        ("24.11.5", "preempt/qos", "REQUEUE", 1),
        ("22.05.8", "preempt/partition_prio", "REQUEUE", 1),
    ],
)
def test_who_requeues_in_the_grace_time(cluster: Cluster, version: str, kind: str, mode: str, requeues: int) -> None:
    (cluster.folder / "config").write_text(CONFIG.format(version, kind))
    (cluster.folder / "partition").write_text(f"PartitionName=low\n   PreemptMode={mode} GraceTime=20\n")
    code, _ = cluster.stop(PreemptTime="2026-01-01T00:00:00", Partition="low", Requeue="1")
    assert (code, cluster.requeues, cluster.run.status.status) == (42, requeues, "preempted")


def test_preempt_cancel_is_rescued_while_it_completes_c08(cluster: Cluster) -> None:
    code, _ = cluster.stop(JobState="COMPLETING", PreemptTime="2026-01-01T00:00:00")
    assert code == 42 and cluster.requeues == 1


def test_a_cancelled_job_stays_cancelled_c10(cluster: Cluster) -> None:
    code, _ = cluster.stop(JobState="COMPLETING")
    assert code == 42 and cluster.requeues == 0
    assert "cancelled" in (cluster.run.status.reason or "")
    assert cluster.run.status.resubmit_count == 0


def test_a_node_that_slurm_gave_up_is_no_cancellation(cluster: Cluster) -> None:
    code, _ = cluster.stop(JobState="COMPLETING", Reason="NodeDown")
    assert code == 42 and cluster.requeues == 1
    assert "gave its node up" in (cluster.run.status.reason or "")


def test_the_time_limit_is_no_cancellation(cluster: Cluster) -> None:
    code, _ = cluster.stop(JobState="COMPLETING", RunTime="01:00:01")
    assert code == 42 and cluster.requeues == 1
    assert "time limit" in (cluster.run.status.reason or "")


def test_somebody_else_has_requeued_it(cluster: Cluster) -> None:
    code, _ = cluster.stop(JobState="COMPLETING", Restarts="1")
    assert code == 42 and cluster.requeues == 0
    assert "cancelled" not in (cluster.run.status.reason or "")


@pytest.mark.parametrize(("end", "reason"), [("2099-01-01T00:00:00", "stopped"), ("2020-01-01T00:00:00", "cancelled")])
def test_requeued_or_cancelled_is_told_apart_without_the_count_at_the_start(
    cluster: Cluster, end: str, reason: str
) -> None:
    (cluster.folder / "answer").unlink()  # the controller was away when the attempt began
    code, _ = cluster.stop(JobState="COMPLETING", Restarts="1", EndTime=end)
    assert code == 42 and cluster.requeues == 0
    assert (cluster.run.status.reason or "").startswith(reason)


def test_a_controller_that_was_away_only_at_the_start_requeues_a_preempted_job(cluster: Cluster) -> None:
    (cluster.folder / "answer").unlink()
    code, _ = cluster.stop(PreemptTime="2026-01-01T00:00:00")
    assert code == 42 and cluster.requeues == 1


def test_a_refused_requeue_leaves_it_to_snakemake(cluster: Cluster) -> None:
    (cluster.folder / "refuse").touch()
    code, said = cluster.stop(PreemptTime="2026-01-01T00:00:00")
    assert code == 42 and "Snakemake's retries" in said
    assert cluster.run.events[-2:] == ["requeued", "requeue_refused"]


def test_no_scontrol_in_the_container_c05(cluster: Cluster) -> None:
    (cluster.folder / "bin" / "scontrol").unlink()
    cluster.run.environment["PATH"] = str(cluster.folder / "bin")
    code, _ = cluster.stop()
    assert code == 42 and cluster.run.status.status == "preempted"


def test_a_controller_that_is_away(cluster: Cluster) -> None:
    (cluster.folder / "answer").unlink()
    process = cluster.run.python(GRACEFUL).start()
    cluster.run.ready()
    process.terminate()
    code, said = cluster.run.end(process)
    assert code == 42 and "Slurm does not tell" in said and cluster.run.status.status == "preempted"


def test_the_launcher_stops_ahead_of_the_limit_where_no_signal_comes(cluster: Cluster) -> None:
    cluster.answer(RunTime="00:00:58", TimeLimit="00:01:00")
    process = cluster.run.python(GRACEFUL).start()
    cluster.run.ready()
    code, said = cluster.run.end(process)
    assert code == 42 and cluster.requeues == 1
    assert "time limit is near" in said and "time limit" in (cluster.run.status.reason or "")


def test_the_guard_can_be_switched_off(cluster: Cluster) -> None:
    cluster.run.spec["operational"]["grace_guard"] = False
    cluster.answer(RunTime="00:01:00", TimeLimit="00:01:00")
    process = cluster.run.python(GRACEFUL).start()
    cluster.run.ready()
    process.terminate()
    assert "time limit is near" not in cluster.run.end(process)[1]


def test_budget_used_is_not_requeued(cluster: Cluster) -> None:
    cluster.run.spec["operational"]["max_resubmit_attempts"] = 0
    code, _ = cluster.stop(PreemptTime="2026-01-01T00:00:00")
    assert code == 43 and cluster.requeues == 0


def test_restart_count_and_memory_are_recorded(cluster: Cluster) -> None:
    cluster.answer(Restarts="3", TRES="cpu=1,mem=2G,node=1")
    cluster.run.bash("exit 0").run()
    assert (cluster.run.status.restart_count, cluster.run.status.mem_mb_asked) == (3, 2048)


def test_a_requeued_job_replaces_its_older_self(cluster: Cluster) -> None:
    """Slurm lost the node's slurmd and started the job again, while the old trainer lived on."""
    old = cluster.run.python(GRACEFUL).start()
    cluster.run.ready()
    (cluster.run.paths.root / "ready").unlink()
    cluster.answer(Restarts="1")
    new = cluster.run.start()
    assert cluster.run.end(old)[0] == 42
    cluster.run.ready()
    new.terminate()
    assert cluster.run.end(new)[0] == 42
    assert cluster.requeues == 1
    assert cluster.run.file("signals").split() == ["SIGTERM", "SIGTERM"]


def test_torchrun_stands_in_front_of_a_builtin_with_several_processes(cluster: Cluster) -> None:
    fake = cluster.folder / "torch" / "distributed"
    fake.mkdir(parents=True)
    (fake.parent / "__init__.py").touch()
    (fake / "__init__.py").touch()
    (fake / "run.py").write_text("import sys; print(sys.argv[1:])")
    cluster.run.spec |= {"processes": 2, "command": ["{python}", "-m", "some.module", "--seed", "{seed}"]}
    cluster.run.run(cwd=cluster.folder)
    said = cluster.run.paths.attempt_log(1).read_text()
    assert "['--standalone', '--nproc-per-node', '2', '-m', 'some.module', '--seed', '7']" in said, sys.executable


def test_out_of_memory_of_the_whole_job_is_told_to_the_next(cluster: Cluster) -> None:
    process = cluster.run.bash("touch $UNBROKEN_RUN_DIR/ready; sleep 1000").start()
    cluster.run.ready()
    wait_for(lambda: cluster.run.status.pid == process.pid, "the start")
    process.kill()
    cluster.run.end(process)
    cluster.run.environment["SLURM_JOB_ID"] = "13"
    cluster.answer(JobId="12", JobState="OUT_OF_MEMORY")
    cluster.run.bash("exit 0").run()
    assert cluster.run.status.out_of_memory_count == 1

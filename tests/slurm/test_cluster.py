"""The test cluster itself: is it the Slurm that the other tests believe in?

Jobs that take long are submitted together by the fixture `jobs`; each test then looks at its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster, Process, host
from .cluster.processes import cgroups, members, until

pytestmark = pytest.mark.slurm

REPOSITORY = Path(__file__).resolve().parents[2]
NEW = (24, 11)  # the versions measured are 22.05 and this
PREEMPTED = ("grace", "nograce", "cancel")
# As the training rule does: the conf's place is forgotten, then a step of its own. It saves for a moment when told to.
STEP = """#!/bin/sh
unset SLURM_CONF
exec srun -n1 bash -c '
    trap "echo got TERM; sleep 1; kill %1; exit 42" TERM
    trap "echo got USR1; kill %1; exit 42" USR1
    echo ready; sleep 300 & wait; wait'
"""
HOG = f"""exec srun -n1 {sys.executable} -c 'b = bytearray(400_000_000)'"""


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Submit one job for each question, on separate nodes where they must not meet, and preempt the victims."""
    ids = {
        p: cluster.sbatch(STEP, f"--nodelist={n}", partition=p) for p, n in zip(PREEMPTED, cluster.nodes, strict=False)
    }
    ids["limit"] = cluster.sbatch(
        STEP, "--time=2", "--signal=USR1@80", f"--nodelist={cluster.nodes[3]}", partition="short"
    )
    ids["hog"] = cluster.sbatch(HOG, "--mem=100M", f"--nodelist={cluster.nodes[3]}")
    ids["gpu"] = cluster.sbatch("echo devices=$CUDA_VISIBLE_DEVICES", "--gpus=2", f"--nodelist={cluster.nodes[3]}")
    for partition in PREEMPTED:
        cluster.wait_output(ids[partition], "ready")
        ids[f"{partition}:preemptor"] = cluster.preempt(cluster.scontrol_show(ids[partition])["NodeList"])
    yield ids
    for job in ids.values():
        cluster.run(["scancel", job], check=False)


def test_nodes_are_up(cluster: Cluster) -> None:
    assert len(cluster.nodes) >= 2
    assert {cluster.node_state(n) for n in cluster.nodes} <= {"idle", "mixed", "allocated", "completing"}


def test_cgroup_tracking_is_on_where_the_kernel_allows(cluster: Cluster) -> None:
    assert cluster.cgroup == host.detect_cgroup()
    conf = cluster.run(["scontrol", "show", "config"]).stdout
    assert f"proctrack/{'cgroup' if cluster.cgroup else 'linuxproc'}" in conf


@pytest.mark.parametrize("partition", PREEMPTED)
def test_step_gets_sigterm_on_preemption(cluster: Cluster, jobs: dict[str, str], partition: str) -> None:
    cluster.wait_output(jobs[partition], "got TERM")
    assert cluster.wait_state(jobs[f"{partition}:preemptor"], "COMPLETED")


def test_end_of_a_preempted_job_depends_on_its_partition(cluster: Cluster, jobs: dict[str, str]) -> None:
    if cluster.version < NEW:  # it ended by itself within the grace time: that was that
        assert cluster.wait_state(jobs["grace"], "FAILED")
    else:
        until(lambda: cluster.scontrol_show(jobs["grace"])["Restarts"] == "1", "Slurm's own requeue")
    assert cluster.wait_state(jobs["cancel"], "PREEMPTED")
    rows = [row for row in cluster.sacct(jobs["grace"]) if row["JobID"] == f"{jobs['grace']}.0"]
    assert rows[0]["ExitCode"] == "42:0"


def test_requeued_job_starts_again_soon(cluster: Cluster, jobs: dict[str, str]) -> None:
    cluster.wait_state(jobs["nograce"], "RUNNING")
    fields = cluster.scontrol_show(jobs["nograce"])
    requeued, started = (time.strptime(fields[k], "%Y-%m-%dT%H:%M:%S") for k in ("SubmitTime", "StartTime"))
    assert fields["Restarts"] == "1"
    assert time.mktime(started) - time.mktime(requeued) < 100  # 121 by default


def test_out_of_memory_kill_is_real(cluster: Cluster, jobs: dict[str, str]) -> None:
    if cluster.cgroup is None:
        assert cluster.wait_state(jobs["hog"], "COMPLETED")  # nothing limits it
        return
    assert cluster.wait_state(jobs["hog"], {"FAILED", "OUT_OF_MEMORY"})
    rows = {row["JobID"]: row for row in cluster.sacct(jobs["hog"])}
    assert rows[f"{jobs['hog']}.0"]["State"] == "OUT_OF_MEMORY"


def test_gpus_are_counted(cluster: Cluster, jobs: dict[str, str]) -> None:
    assert cluster.wait_state(jobs["gpu"], "COMPLETED")
    assert "devices=0,1" in cluster.output(jobs["gpu"])


def test_warning_signal_comes_before_the_time_limit(cluster: Cluster, jobs: dict[str, str]) -> None:
    cluster.wait_output(jobs["limit"], "got USR1")
    assert cluster.wait_state(jobs["limit"], "FAILED") == "FAILED"


def test_daemons_can_fail_and_return(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    cluster.stop_slurmdbd()
    cluster.kill_slurmd(node)
    job = cluster.sbatch("sleep 1; echo ran", f"--nodelist={node}")
    cluster.restart_slurmctld()
    cluster.start_slurmdbd()
    cluster.start_slurmd(node)
    assert cluster.wait_state(job, "COMPLETED")
    assert cluster.output(job) == "ran\n"


def test_power_loss_of_a_node_ends_its_jobs(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    job = cluster.sbatch("sleep 301", f"--nodelist={node}")
    cluster.wait_state(job, "RUNNING")
    until(lambda: _named(cluster.leftovers(), "sleep 301"), "the job's process")
    cluster.stop_slurmdbd()
    cluster.kill_slurmd(node, jobs=True)
    assert not _named(cluster.leftovers(), "sleep 301")
    cluster.start_slurmd(node)
    cluster.start_slurmdbd()  # may be given the number of the mount namespace that the lost slurmd had
    cluster.cancel(job)
    cluster.wait_state(job, "CANCELLED")  # before the slurmd that is told to end it is lost: told again much later
    cluster.kill_slurmd(node, jobs=True)
    assert "slurmdbd" in cluster.daemons()
    cluster.start_slurmd(node)


def test_nothing_is_left_when_no_job_runs(cluster: Cluster) -> None:
    cluster.run(["scancel", "--user=root"])
    until(lambda: not cluster.run(["squeue", "-h"]).stdout, "the end of all jobs")
    until(lambda: not cluster.leftovers(), "the end of all jobs' processes")


def test_second_instance_beside_a_foreign_etc_slurm(cluster: Cluster) -> None:
    """It runs beside the first, hides a foreign /etc/slurm from its jobs alone, and leaves nothing behind."""
    if not cluster.private_etc:
        pytest.skip("no private mount namespace here (unshare --mount is refused)")
    script = f"""
        import json
        from pathlib import Path
        from {Cluster.__module__} import Cluster
        before = Path("/etc/slurm/slurm.conf").read_text()
        with Cluster(node_count=2, accounting=False, options={{"MinJobAge": "2"}}, private_etc=True) as second:
            # A job that hides: own session, empty environment.
            hide = "setsid env -i sleep 302 & unset SLURM_CONF; srun -n1 cat /etc/slurm/slurm.conf; sleep 302"
            job = second.sbatch(hide)
            seen = second.wait_output(job, "PartitionName=down")
            seen = "ClusterName=" + second.name in seen
            files = second.layout
        after = Path("/etc/slurm/slurm.conf").read_text()
        print(json.dumps({{"seen": seen, "untouched": before == after == "ClusterName=foreign\\n",
                          "root": str(files.root), "nodes": second.nodes}}))
    """
    foreign = 'mount -t tmpfs foreign /etc/slurm && echo ClusterName=foreign >/etc/slurm/slurm.conf && exec "$@"'
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", foreign, "sh", *_python(script)]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["seen"] and said["untouched"]
    assert not Path(said["root"]).exists()
    assert not cgroups(said["nodes"])
    assert said["root"] not in Path("/proc/mounts").read_text()
    assert not _named(_everything(), "sleep 302")
    assert cluster.run(["scontrol", "ping"]).stdout.endswith("is UP\n")


def test_cluster_of_a_killed_process_is_removed() -> None:
    """Even SIGKILL of the tests leaves nothing; here in the way that needs no mount namespace."""
    script = f"""
        import json, os, signal, sys
        from {Cluster.__module__} import Cluster
        third = Cluster(node_count=1, accounting=False, private_etc=False).start()
        job = third.sbatch("unset SLURM_CONF; exec srun -n1 sh -c 'echo ready; sleep 303'")
        third.wait_output(job, "ready")
        print(json.dumps({{"root": str(third.layout.root), "nodes": third.nodes}}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(_python(script), cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == -9, done.stderr
    said = json.loads(done.stdout)
    root = Path(said["root"])
    until(lambda: not root.exists(), "removal of the folder of the killed cluster")
    assert not members(root, root / "etc")
    assert not cgroups(said["nodes"])
    assert not _named(_everything(), "sleep 303")


def _python(script: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script)]


def _named(processes: list[Process], command: str) -> list[Process]:
    return [p for p in processes if p.command == command]


def _everything() -> list[Process]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(Process(int(path.parent.name), "", path.read_bytes().replace(b"\0", b" ").decode().strip()))
        except (OSError, UnicodeDecodeError):
            continue
    return found

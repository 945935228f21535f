"""Clusters without accounting, that forget jobs at once, forbid requeues, know no such account: works, or says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, events_of, result_of, running
from tests.workflow.project import starts_of, status_of, toy_total

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

COUNT = 'echo x >> "$here/sbatch-calls"'


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Cluster]:
    """No accounting, ended jobs are purged at once, no requeue by default."""
    yield from running(Cluster(node_count=2, accounting=False, options={"MinJobAge": "2", "JobRequeue": "0"}))


@pytest.fixture(scope="module")
def strict() -> Iterator[Cluster]:
    """Purged at once too, but with accounting, and only known accounts may submit."""
    options = {"MinJobAge": "2", "AccountingStorageEnforce": "associations,limits,qos"}
    yield from running(Cluster(node_count=2, options=options))


class SlowlyPolled(SlurmProject):
    """Polls so seldom that a job is purged between two polls."""

    poll_s = 13


def purged_runs(project: SlurmProject) -> None:
    """Runs that end in each way before Snakemake looks again."""
    project.add("finishing", config={"steps": 8})
    project.add("crashing", config={"steps": 8, "crash_at": 3})
    project.add("shot", config={"steps": 8, "kill_at": 3, "save_every": 2}, operational={"no_progress_limit": 2})
    project.add_held("preempted", resources={"slurm_partition": "cancel"})


def check_purged(project: SlurmProject, cluster: Cluster) -> None:
    snakemake = project.begin()
    preempted = project.holding("preempted")
    cluster.preempt(project.job("preempted"))
    if "long" in project.slugs:
        project.said("PartitionTimeLimit")
        cluster.cancel(project.submitted("long"))
    project.holding("preempted", starts=2)
    (preempted / "release").touch()
    assert project.finish(snakemake, 240) == 1, project.log()
    for slug, starts in (("finishing", [0]), ("preempted", [0, 4])):
        assert starts_of(project.one_run(slug)) == starts
        assert result_of(project.one_run(slug))["total"] == toy_total(8)
    assert starts_of(project.one_run("crashing")) == [0]  # trained once, though nobody saw how its job ended
    assert "ValueError: loss is nan at step 3" in project.log()
    assert starts_of(project.one_run("shot"))[:2] == [0, 2]
    assert status_of(project.one_run("shot"))["failure"] == "no_progress"


def test_c13_without_accounting_a_purged_job_is_judged_by_its_run_directory(tmp_path: Path, forgetful: Cluster) -> None:
    project = SlowlyPolled(tmp_path, forgetful)
    purged_runs(project)
    try:
        check_purged(project, forgetful)
        assert events_of(
            project.one_run("preempted"), "requeued"
        )  # the profile asks for --requeue: JobRequeue=0 is no bar
        assert status_of(project.one_run("preempted"))["restart_count"] == 1
    finally:
        project.close()


REFUSED = {
    "account": ({"slurm_account": "nosuch"}, "set slurm_account to one of yours"),
    "partition": ({"slurm_partition": "nosuch"}, "set slurm_partition to one that `sinfo` shows"),
    "qos": ({"qos": "nosuch"}, "set qos to one that your account may use"),
    "device": ({"gres": "tpu:1"}, "ask for GPUs as the cluster names them"),
    "memory": ({"mem_mb": 100_000_000}, "lower mem_mb to what a node has"),
}


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory, strict: Cluster) -> Iterator[SlurmProject]:
    """One call on the strict cluster: runs whose jobs are purged, and submissions that Slurm refuses."""
    project = SlowlyPolled(tmp_path_factory.mktemp("strict"), strict)
    purged_runs(project)
    for slug, (resources, _) in REFUSED.items():
        project.add(slug, config={"steps": 2}, resources=resources)
    project.add("long", config={"steps": 2}, resources={"slurm_partition": "short", "runtime": 10})
    # sacctmgr knows nothing of the account (it stands for another, or users may not ask): Slurm is asked, not it.
    project.add("proxy", config={"steps": 2}, resources={"slurm_account": "unbroken"})
    project.wrap("sacctmgr", "echo 'sacctmgr: error: Access denied' >&2; exit 1")
    project.wrap("sshare", "exit 1")
    project.wrap("sbatch", 'echo "$*" | tr "\\n" " " >> $here/calls; echo >> $here/calls')
    try:
        check_purged(project, strict)
        yield project
    finally:
        project.close()


def test_c12_with_accounting_a_purged_job_is_found_there(call: SlurmProject, strict: Cluster) -> None:
    job = events_of(call.one_run("crashing"), "run_started")[0]["slurm_job_id"]
    assert strict.state(job) == "GONE"
    assert f"(Slurm job {job}): crashed with exit code 1" in call.log()


@pytest.mark.parametrize("slug", REFUSED)
def test_what_slurm_refuses_is_said_once_with_the_key_to_change(call: SlurmProject, slug: str) -> None:
    message = f"{slug} base seed=0: Slurm does not take this job. What to change: {REFUSED[slug][1]}"
    assert call.log().count(message) == 1
    assert "Traceback" not in call.log()
    calls = (call.programs / "calls").read_text()
    assert calls.count(f"rule_train_{slug}_wildcards") == 1  # no retry was spent on it


def test_a_job_that_slurm_takes_and_cannot_start_is_said(call: SlurmProject) -> None:
    message = "waits because its time limit is longer than its partition allows (PartitionTimeLimit)"
    assert call.log().count(message) == 1


def test_a_proxy_account_is_slurms_to_judge(call: SlurmProject) -> None:
    assert status_of(call.one_run("proxy"))["status"] == "completed"


def test_array_jobs_are_refused_with_the_reason(tmp_path: Path, cluster: Cluster) -> None:
    project = SlurmProject(tmp_path, cluster)
    project.add("many", config={"steps": 2}, seeds=2)
    project.wrap("sbatch", COUNT)
    assert project.finish(project.begin("--unbroken-array-jobs", "all")) != 0
    assert "array jobs are refused: the accounting of array tasks mixes up their ids" in project.log()
    assert not (project.programs / "sbatch-calls").exists()


def test_c06_a_signal_that_cannot_reach_the_trainer_is_said_before_the_first_submission(
    tmp_path: Path, cluster: Cluster
) -> None:
    project = SlurmProject(tmp_path, cluster)
    project.add("deafened", config={"steps": 2}, resources={"slurm_extra": "--signal=B:USR1@60"})
    project.wrap("sbatch", COUNT)
    assert project.finish(project.begin()) != 0
    assert "never reaches the trainer" in project.log()
    assert not (project.programs / "sbatch-calls").exists()

"""Every fault that made a Snakemake on Slurm hang or lose a run, all in one call of `snakemake --profile slurm`.

The fixture `campaign` starts the call, does to each run what its name says, and waits for the end; each test then looks
at its own run.
"""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, events_of, programs_without, result_of
from tests.workflow.project import starts_of, status_of, toy_total

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"
SBATCH = f"""
if rm $here/failing-1 2>/dev/null || rm $here/failing-2 2>/dev/null; then echo '{AWAY}' >&2; exit 1; fi
case "$*" in *rule_train_no-scontrol_*) export PATH=$here/without-scontrol;; esac
"""
SQUEUE = """
if [ -e $here/squeue-is-away ]; then
    echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1
fi
"""
LONG = "steady-" + "long-" * 10 + "name"


class Campaign(SlurmProject):
    """The runs and what is done to them."""

    def add_runs(self) -> None:
        on = [f"--nodelist={node}" for node in self.cluster.nodes]
        self.add_held("not-requeueable", f"--no-requeue {on[0]}", resources={"slurm_partition": "nograce"})
        self.add_held("no-scontrol", on[1], resources={"slurm_partition": "cancel"})
        self.add_held("by-hand", on[2])
        self.add_held("held", f"--hold {on[2]}")
        self.add_held("unwanted", "--begin=now+1hour")
        self.add_held(LONG, on[2])
        self.add_held("node-lost", on[3], config={"hold_at": 5, "save_every": 2})
        self.add_held("killed", on[2], config={"hold_at": -1, "kill_at": 3}, operational={"no_progress_limit": 99})
        self.add_held("stuck", on[2], command='sh -c "echo x >> {run_dir}/starts; exit 42"')
        self.add_held("crashing", on[2], config={"hold_at": -1, "crash_at": 3})

    def hurt(self) -> None:
        """Do everything, in an order in which nothing waits for nothing."""
        cluster = self.cluster
        for slug in ("not-requeueable", "no-scontrol", "by-hand", LONG, "node-lost"):
            self.holding(slug)
        self.name_in_queue = cluster.run(["squeue", "-h", "-j", self.job(LONG), "-o", "%j"]).stdout.strip()
        (self.programs / "squeue-is-away").touch()
        self.said("Slurm does not answer; waiting")
        (self.programs / "squeue-is-away").unlink()
        self.said("Slurm answers again")
        cluster.stop_slurmdbd()
        cluster.kill_slurmd(cluster.nodes[3], jobs=True)
        cluster.run(["scontrol", "requeue", self.job("by-hand")])
        cluster.preempt(cluster.nodes[0])
        cluster.preempt(cluster.nodes[1])
        cluster.cancel(self.submitted("unwanted"))
        self.said("holds it (JobHeldUser). Release it: scontrol release")
        cluster.run(["scontrol", "release", self.submitted("held")])
        self.said("cancelled by a person")
        self.await_(lambda: "down" in cluster.node_state(cluster.nodes[3]), "Slurm to notice the lost node")
        cluster.launch_slurmd(cluster.nodes[3])
        cluster.start_slurmdbd()
        for slug in ("not-requeueable", "no-scontrol", "by-hand", "node-lost"):
            self.holding(slug, starts=2)
        # Not before: a controller that was restarted takes minutes to notice a node that is gone (seen).
        cluster.restart_slurmctld()
        cluster.restart_slurmctld(signal.SIGKILL)
        for run in (self.folder / "runs").glob("*/*/*"):
            (run / "release").touch()


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Campaign]:
    campaign = Campaign(tmp_path_factory.mktemp("faults"), cluster)
    campaign.add_runs()
    campaign.wrap("sbatch", SBATCH)
    campaign.wrap("squeue", SQUEUE)
    programs_without(campaign.programs / "without-scontrol", "scontrol")
    (campaign.programs / "failing-1").touch()
    (campaign.programs / "failing-2").touch()
    snakemake = campaign.begin()
    try:
        campaign.hurt()
        assert campaign.finish(snakemake) == 1, campaign.log()  # some were meant to fail
        yield campaign
    finally:
        campaign.close()
        if cluster.nodes[3] not in cluster.daemons():
            cluster.launch_slurmd(cluster.nodes[3])
        cluster.wait_slurmd(cluster.nodes[3])


def finished(campaign: Campaign, slug: str, starts: list[int]) -> Path:
    """Trained to the end, bit for bit, with these starts."""
    run = campaign.one_run(slug)
    assert starts_of(run) == starts
    assert result_of(run)["total"] == toy_total(8)
    assert status_of(run)["status"] == "completed"
    return run


def attempts(campaign: Campaign, slug: str) -> int:
    """How often Slurm was given the run."""
    return len({event["slurm_job_id"] for event in events_of(campaign.one_run(slug), "run_started")})


def test_c08_preempted_for_good_is_submitted_again(campaign: Campaign) -> None:
    run = finished(campaign, "not-requeueable", [0, 4])
    assert events_of(run, "requeue_refused")
    assert attempts(campaign, "not-requeueable") == 2
    assert campaign.log().count("and does not queue it again: submitted again") >= 1


def test_c05_no_scontrol_in_the_job_leaves_the_restart_to_the_exit_code(campaign: Campaign) -> None:
    run = finished(campaign, "no-scontrol", [0, 4])
    assert attempts(campaign, "no-scontrol") == 2
    assert not events_of(run, "requeued")


def test_requeued_by_a_person_while_it_runs(campaign: Campaign) -> None:
    finished(campaign, "by-hand", [0, 4])
    assert attempts(campaign, "by-hand") == 1  # the same job
    assert status_of(campaign.one_run("by-hand"))["restart_count"] == 1


def test_a_held_job_is_said_and_waited_for(campaign: Campaign) -> None:
    finished(campaign, "held", [0])
    assert f"scontrol release {status_of(campaign.one_run('held'))['slurm_job_id']}" in campaign.log()


def test_c10_a_job_cancelled_while_it_waits_stays_cancelled(campaign: Campaign) -> None:
    assert not campaign.runs("unwanted")
    assert campaign.log().count("cancelled by a person") == 1


def test_a_lost_node_costs_at_most_one_checkpoint_interval(campaign: Campaign) -> None:
    finished(campaign, "node-lost", [0, 4])


def test_c29_polls_without_an_answer_and_restarted_daemons_lose_no_job(campaign: Campaign) -> None:
    finished(campaign, LONG, [0])
    assert attempts(campaign, LONG) == 1


def test_c28_a_job_is_called_by_its_setting_however_long(campaign: Campaign) -> None:
    assert campaign.name_in_queue == f"{LONG}_base_seed=0"[:64]


def test_submissions_that_failed_twice_are_tried_again_at_no_cost(campaign: Campaign) -> None:
    assert campaign.log().count("Slurm does not take submissions now") == 2
    assert not list(campaign.programs.glob("failing-*"))


def test_c09_three_retries_are_four_starts(campaign: Campaign) -> None:
    assert starts_of(campaign.one_run("killed")) == [0, 0, 0, 0]
    assert campaign.log().count("Trying to restart") == 3  # nobody else's retries were spent


def test_c11_exit_42_again_and_again_is_no_progress(campaign: Campaign) -> None:
    run = campaign.one_run("stuck")
    assert (run / "starts").read_text().split() == ["x", "x", "x"]
    assert status_of(run)["failure"] == "no_progress"
    assert "no progress: 3 attempts in a row" in campaign.log()


def test_c31_a_sibling_that_fails_takes_nothing_with_it(campaign: Campaign) -> None:
    assert starts_of(campaign.one_run("crashing")) == [0]
    assert "ValueError: loss is nan at step 3" in campaign.log() and "attempt_1.log" in campaign.log()
    for slug in ("killed", "stuck", "crashing"):
        assert (campaign.one_run(slug) / "logs" / "attempt_1.log").exists()


def test_a_new_call_trains_only_what_is_not_finished(campaign: Campaign) -> None:
    """After the faults the same command goes on: the cancelled run, and the failed ones."""
    for slug in ("killed", "stuck", "crashing"):
        campaign.slugs.remove(slug)
    shutil.rmtree(campaign.programs)
    campaign.add_held("unwanted", config={"hold_at": 100})
    assert campaign.finish(campaign.begin()) == 0, campaign.log()
    finished(campaign, "unwanted", [0])
    finished(campaign, LONG, [0])

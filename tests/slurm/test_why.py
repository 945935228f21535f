"""Each kind of end, produced for real and named right by `unbroken why`. All jobs run side by side."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.ends import Ends, wait_for

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Ends]:
    """Everything started; what needs a push has got it."""
    ends = Ends(tmp_path_factory.mktemp("why"), cluster)
    lost_node, ends.quiet_node = cluster.nodes[3], cluster.nodes[2]
    once = "--no-requeue"
    holding = ("preempted", "requeued", "limit", "node", "cancelled", "live", "stubborn")
    for slug in holding:
        ends.add(slug, {"hold_at": 2}, **({"operational": {"max_resubmit_attempts": 0}} if slug == "stubborn" else {}))
    ends.add("abrupt", {"hold_at": 2, "save_s": 600})  # longer than Slurm waits: its launcher is killed with it
    ends.add("completed", {})
    ends.add("crash", {"crash_at": 1})
    ends.add("noresult", {"result": False})
    ends.add("memory", {"hog_mb": 400})
    ends.add("foreign", {})
    for slug in ("held", "down", "resources", "never"):
        ends.add(slug, {})
    ends.submit("node", once, f"--nodelist={lost_node}")
    ends.submit("preempted", once, f"--nodelist={cluster.nodes[0]}", partition="grace")
    ends.submit("requeued", f"--nodelist={cluster.nodes[1]}", partition="grace")
    # Slurm looks at limits every 30 s and may warn so much earlier: here 20 to 50 s after the start.
    ends.submit("limit", once, "--time=2", "--signal=USR1@70", partition="short")
    ends.hard = cluster.sbatch(
        "exec srun -n1 sleep 600",
        "--time=1",
        "--job-name=hard",
        once,
        f"--nodelist={ends.quiet_node}",
        partition="short",
    )
    for slug in ("cancelled", "live", "abrupt"):
        ends.submit(slug)
    ends.submit("stubborn", "--requeue")
    for slug in ("completed", "crash", "noresult"):
        ends.submit(slug)
    ends.submit("memory", memory="150M")
    (ends.cases["foreign"].root / "config_identity.json").write_text(_other_identity(ends))
    ends.submit("foreign")
    ends.submit("held", "--hold")
    ends.submit("down", partition="down")
    ends.submit("never", "--hold")
    cluster.cancel(ends.cases["never"].jobs[0])
    for slug in (*holding, "abrupt"):
        ends.holds(slug)
    cluster.kill_slurmd(lost_node, jobs=True)
    for slug in ("preempted", "requeued"):
        cluster.preempt(ends.cases[slug].jobs[0], seconds=20)
    for slug in ("cancelled", "abrupt"):
        cluster.cancel(ends.cases[slug].jobs[0])
    second = ends.submit("live", "--job-name=second")
    cluster.wait_state(second, "FAILED")  # before the next one, which would stand before it in the queue
    ends.submit("resources", "--cpus-per-task=8")
    cluster.wait_state(ends.cases["requeued"].jobs[0], "PENDING")
    ends.early = ends.why(ends.cases["requeued"].name)
    yield ends
    (ends.cases["live"].root / "release").touch()
    for case in ends.cases.values():
        for job in case.jobs:
            cluster.run(["scancel", "-f", job], check=False)
    cluster.start_slurmd(lost_node)


def _other_identity(ends: Ends) -> str:
    document = ends.cases["foreign"].run.launch_spec()["identity"]
    return json.dumps({**document, "config_hash": "f" * 64, "config": {"steps": 99}})


@pytest.mark.parametrize(
    ("slug", "kind", "words"),
    [
        ("completed", "completed", "result.json is there"),
        ("crash", "crash", "ValueError: loss is nan at step 1"),
        ("noresult", "no_result", "no result.json"),
        ("memory", "out_of_memory", "150 MB"),
        ("cancelled", "cancelled", "cancelled by a person"),
        ("foreign", "identity_mismatch", "another setting"),
        ("preempted", "preempted", "A checkpoint is there"),
        ("limit", "time_limit", "A checkpoint is there"),
        ("node", "node_failure", "failed under it"),
    ],
)
def test_a_run_that_ended_is_named_right(ends: Ends, slug: str, kind: str, words: str) -> None:
    case = ends.cases[slug]
    ends.settled(case.jobs[0])
    verdict = ends.why(case.name)
    assert (verdict["kind"], words in verdict["sentence"]) == (kind, True), verdict
    assert verdict["fix"] or kind == "completed"
    assert ends.why(case.jobs[0])["kind"] == kind  # by its job id as well


@pytest.mark.parametrize(
    ("slug", "kind", "code"),
    [
        ("held", "held", "JobHeldUser"),
        ("down", "bad_partition", "PartitionDown"),
        ("resources", "pending", ("Resources", "Priority")),
    ],
)
def test_a_waiting_run_says_why_it_waits(ends: Ends, slug: str, kind: str, code: str | tuple[str, ...]) -> None:
    case = ends.cases[slug]
    codes = (code,) if isinstance(code, str) else code
    wait_for(lambda: ends.cluster.scontrol_show(case.jobs[0]).get("Reason") in codes, f"{slug} to have its reason")
    verdict = ends.why(case.name)
    assert verdict["kind"] == kind and verdict["job"] == case.jobs[0], verdict
    assert any(f"({word})" in verdict["sentence"] for word in codes)
    rows = json.loads(ends.cli("status", slug, "--json").stdout)["collections"][slug]["runs"]
    assert rows[0]["pending_reason"] in codes and rows[0]["slurm_job_id"] == case.jobs[0]


def test_a_preempted_run_that_slurm_requeued_waits_and_says_what_happened(ends: Ends) -> None:
    assert ends.early["kind"] == "pending" and "preempted by Slurm" in ends.early["sentence"], ends.early
    case = ends.cases["requeued"]
    wait_for(lambda: case.status == "running", "the requeued job to start")
    assert ends.why(case.name)["kind"] == "running"


def test_the_second_job_of_a_run_is_told_who_holds_it(ends: Ends) -> None:
    first, second = ends.cases["live"].jobs
    ends.settled(second)
    verdict = ends.why(second)
    assert verdict["kind"] == "lease_held" and first in verdict["sentence"], verdict
    assert ends.why(ends.cases["live"].name)["kind"] == "running"


def test_a_job_that_never_started_and_one_that_hit_the_wall(ends: Ends) -> None:
    never = ends.cases["never"]
    verdict = ends.why(never.jobs[0])
    assert verdict["kind"] == "cancelled" and "before it started" in verdict["sentence"], verdict
    assert ends.why(never.name)["kind"] in {"never_started", "cancelled"}
    ends.settled(ends.hard)
    assert ends.why(ends.hard)["kind"] == "time_limit"
    assert ends.why("999999")["kind"] == "unknown"


def test_a_run_whose_launcher_was_killed_is_not_running_in_status_either(ends: Ends) -> None:
    case = ends.cases["abrupt"]
    ends.settled(case.jobs[0])
    assert case.status == "running"  # nobody was left to write anything else
    lease = case.root / "lease" / "000001.json"
    written = json.loads(lease.read_text())
    for host in (written["host"], "another-machine"):  # where its process can be looked for, or not
        lease.write_text(json.dumps({**written, "host": host}))
        verdict = ends.why(case.name)
        found = json.loads(ends.cli("status", "abrupt", "--json").stdout)["collections"]["abrupt"]
        assert verdict["kind"] == "cancelled", verdict
        assert found["runs"][0]["status"] == "cancelled" and verdict["sentence"].endswith(found["runs"][0]["reason"])
        assert found["totals"]["states"] == {"cancelled": 1}


def test_preempt_by_hand_uses_the_budget_and_retry_clears_it(ends: Ends) -> None:
    case = ends.cases["stubborn"]
    said = ends.cli("preempt", case.name).stdout
    assert case.jobs[0] in said
    ends.settled(case.jobs[0])
    verdict = ends.why(case.name)
    assert verdict["kind"] == "gave_up" and "max_resubmit_attempts 0" in verdict["sentence"], verdict
    assert f"unbroken retry {case.name}" in verdict["fix"]
    assert "trained again" in ends.cli("retry", case.name).stdout
    assert case.status == "pending"
    refused = ends.cli("retry", ends.cases["live"].name, check=False)
    assert refused.returncode == 45 and "being trained by" in refused.stderr


def test_metrics_cluster_and_gpu_on_real_answers(ends: Ends, tmp_path: Path) -> None:
    ends.settled(ends.cases["completed"].jobs[0])
    table = tmp_path / "metrics.csv"
    found = json.loads(ends.cli("metrics", "completed", "--json", "--csv", str(table)).stdout)
    record = found["runs"][0]
    assert record["state"] == "COMPLETED" and record["memory_asked_mib"] == 500 and record["attempts"] == 1
    assert found["suggestion"]["runtime"] == 5
    assert len(table.read_text().splitlines()) == 2
    cluster = json.loads(ends.cli("cluster", "--json", "--check").stdout)
    assert {row["name"] for row in cluster["partitions"]} >= {"normal", "down", "grace"}
    assert not [line for line in cluster["contract"] if line["grade"] == "problem"]
    no_gpu = ends.cli("gpu", ends.cases["live"].name, check=False)
    assert no_gpu.returncode == 1 and "has no GPU" in no_gpu.stderr

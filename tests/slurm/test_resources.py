"""Memory that runs out for real, and GPUs that are asked for in both ways; one call of Snakemake for all."""

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, events_of, result_of
from tests.workflow.project import starts_of, status_of, toy_total

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

SHOW = 'sh -c "echo $CUDA_VISIBLE_DEVICES >> {run_dir}/devices; echo {{}} > {run_dir}/result.json"'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[SlurmProject]:
    if cluster.cgroup is None:
        pytest.skip("nothing limits memory here: the kernel gives us no cgroups")
    project = SlurmProject(tmp_path_factory.mktemp("resources"), cluster)
    hog = {"steps": 8, "hog_mb": 800}
    project.add("hungry", config=hog, resources={"mem_mb": 600}, operational={"memory_growth": 2})
    capped = {"memory_growth": 2, "memory_cap_mb": 700}
    project.add("capped", config=hog, resources={"mem_mb": 600}, operational=capped)
    project.add("by-gres", command=SHOW, config={"x": 1}, resources={"gres": "gpu:2"})
    project.add("by-gpu", command=SHOW, config={"x": 1}, resources={"gpu": 2})
    assert project.finish(project.begin()) == 1, project.log()  # `capped` does not finish
    yield project
    project.close()


def steps(cluster: Cluster, job: str) -> dict[str, dict[str, str]]:
    return {row["JobID"].partition(".")[2]: row for row in cluster.sacct(job)}


def test_out_of_memory_asks_for_more_and_finishes(project: SlurmProject, cluster: Cluster) -> None:
    run = project.one_run("hungry")
    assert starts_of(run) == [0, 0]
    assert result_of(run)["total"] == toy_total(8)
    first, second = (event["slurm_job_id"] for event in events_of(run, "run_started"))
    assert steps(cluster, first)["0"]["State"] == "OUT_OF_MEMORY"
    assert steps(cluster, first)[""]["State"] in {"FAILED", "OUT_OF_MEMORY"}
    assert (steps(cluster, first)[""]["ReqMem"], steps(cluster, second)[""]["ReqMem"]) == ("600M", "1200M")
    status = status_of(run)
    assert status["mem_mb_asked"] == 1200
    assert 800 <= status["mem_mb_used"] <= 1200


def test_out_of_memory_at_the_cap_says_asked_and_used(project: SlurmProject, cluster: Cluster) -> None:
    run = project.one_run("capped")
    assert starts_of(run) == [0, 0]  # 600, then the cap; a third could only end the same way
    status = status_of(run)
    assert (status["status"], status["failure"], status["mem_mb_asked"]) == ("failed", "out_of_memory", 700)
    assert status["mem_mb_used"] >= 600
    for said in (status["reason"], project.log()):
        assert "out of memory" in said
        assert "asked for 700 MB" in said and f"used {status['mem_mb_used']} MB" in said
        assert "memory_cap_mb" in said


@pytest.mark.parametrize("slug", ["by-gres", "by-gpu"])
def test_c30_two_gpus_are_one_start_that_sees_both(project: SlurmProject, slug: str) -> None:
    assert (project.one_run(slug) / "devices").read_text() == "0,1\n"

"""Summary and report as Snakemake makes them: by rules where all runs finish, by hooks where some do not."""

import csv
import subprocess
from pathlib import Path

from tests.workflow.project import Project, clean_env, starts_of


def rows(project: Project, slug: str) -> list[dict[str, str]]:
    with open(project.folder / "results" / slug / "summary.csv", newline="") as file:
        return list(csv.DictReader(file))


def lines(output: str, start: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(start)]


def test_a_slug_with_a_dash_is_a_target(project: Project) -> None:
    project.add("small-rivers", config={"steps": 3}, grid={"width": [1, 2]}, seeds=2)
    project.add("other", config={"steps": 3})
    done = project.snakemake("small-rivers", "--cores", "2")
    assert done.returncode == 0, done.stdout
    assert [row["width"] for row in rows(project, "small-rivers")] == ["1", "1", "2", "2"]
    assert (project.folder / "results" / "small-rivers" / "report.html").stat().st_size > 5000
    said = "small-rivers: 4 of 4 runs finished; summary: results/small-rivers/summary.csv, "
    assert lines(done.stdout, "small-rivers: ") == [f"{said}report: results/small-rivers/report.html"]
    assert not (project.folder / "results" / "other").exists()
    again = project.snakemake("small-rivers", "--cores", "2")
    assert "Nothing to be done" in again.stdout


def test_a_crash_leaves_a_summary_of_the_others(project: Project) -> None:
    project.add("mixed", config={"steps": 3}, grid={"crash_at": [None, 1]}, seeds=2)
    done = project.snakemake("--cores", "2")
    assert done.returncode != 0
    assert [row["crash_at"] for row in rows(project, "mixed")] == ["", ""]
    assert lines(done.stdout, "mixed: ")[0].startswith(
        "mixed: 2 of 4 runs finished; summary: results/mixed/summary.csv"
    )
    failed = lines(done.stdout, "  failed: ")
    assert len(failed) == 2
    assert all("loss is nan at step 1" in line and "logs/attempt_1.log" in line for line in failed)
    assert "crash_at=1 seed=0" in failed[0] and "crash_at=1 seed=1" in failed[1]
    page = (project.folder / "results" / "mixed" / "report.html").read_text()
    assert "2 of 4" in page and "loss is nan at step 1" in page
    pending = project.snakemake("-n").stdout
    assert "Summing up mixed" in pending and "Writing the report of mixed" in pending


def test_one_run_alone_is_summed_up_too(project: Project) -> None:
    project.add("pair", config={"steps": 3}, seeds=2)
    target = next(line for line in project.snakemake("-n").stdout.split() if line.endswith("seed_1/result.json"))
    done = project.snakemake(target, "--cores", "1")
    assert "pair: 1 of 2 runs finished" in done.stdout
    assert [row["seed"] for row in rows(project, "pair")] == ["1"]
    full = project.snakemake("--cores", "1")
    assert full.returncode == 0 and len(rows(project, "pair")) == 2


def test_a_comment_trains_nothing_again(project: Project) -> None:
    project.add("noted", config={"steps": 3})
    assert project.snakemake("--cores", "1").returncode == 0
    path = project.folder / "config" / "collections" / "noted.yaml"
    path.write_text(f"# a comment\n{path.read_text()}")
    done = project.snakemake("--cores", "1")
    assert "Summing up noted" in done.stdout and "Training" not in done.stdout
    assert len(starts_of(project.runs("noted")[0])) == 1


def test_snakemakes_own_report_needs_no_network(project: Project) -> None:
    project.add("small-rivers", config={"steps": 3}, seeds=2)
    assert project.snakemake("--cores", "2").returncode == 0
    argv = [*without_network(), *project.argv("--report", "all.html")]
    done = subprocess.run(argv, cwd=project.folder, env=clean_env(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (project.folder / "all.html").read_text()
    assert "results/small-rivers/report.html" in page and "results/small-rivers/summary.csv" in page
    assert "One row for each finished run" in page


def without_network() -> list[str]:
    """A prefix that runs a program where there is no network at all."""
    prefix = ["unshare", "--user", "--map-root-user", "--net"]
    works = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    dead = [f"{name}=http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY")]
    return prefix if works else ["env", *dead]


def test_the_scripts_run_alone(project: Project) -> None:
    project.add("alone", config={"steps": 3})
    assert project.snakemake("--cores", "1").returncode == 0
    home = project.folder / "results" / "alone"
    before = (home / "summary.csv").read_bytes()
    for path in (home / "summary.csv", home / "report.html"):
        path.unlink()
    for what, said in (("summary", "alone: 1 of 1 runs finished"), ("page", "results/alone/report.html")):
        argv = [project.argv()[0], "-m", "unbroken.report", what, "alone"]
        done = subprocess.run(argv, cwd=project.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and said in done.stdout, done.stderr
    assert (home / "summary.csv").read_bytes() == before and Path(home / "report.html").is_file()
    argv = [project.argv()[0], "-m", "unbroken.report", "page", "alon"]
    wrong = subprocess.run(argv, cwd=project.folder, capture_output=True, text=True, check=False)
    assert wrong.returncode == 1 and wrong.stderr.startswith("unbroken: ") and "Traceback" not in wrong.stderr

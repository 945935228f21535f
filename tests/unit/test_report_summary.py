"""summary.csv: one row a finished run, the same bytes however the runs went."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console
from tests.report_runs import Story, collection_of, eventful, result_of

from unbroken.report import print_summary, summarise, write_summary
from unbroken.report.outcome import conclude, failure_lines
from unbroken.report.records import read_records
from unbroken.report.results import setting_table, short_names
from unbroken.report.summary import scalars, varying_keys


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbroken.report.jobs.client.available", lambda command: False)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_interruptions_leave_no_trace(tmp_path: Path) -> None:
    files = []
    for name in ("unbroken", "broken"):
        collection = collection_of(tmp_path / name, grid={"hidden": [16, 32]}, seeds=2)
        for run in collection.runs():
            story = Story(run, tmp_path / name / "runs").begin()
            if name == "broken":
                story.train(120).preempt(120).wait(300).begin().train(40).vanish().wait(60).begin()
                story.train(280).crash().wait(5).begin()
            story.train(story.total - story.step).finish(**result_of(run)).write()
        summary = write_summary(collection, tmp_path / name / "runs", tmp_path / name / "summary.csv")
        assert summary.line == "rivers: 4 of 4 runs finished"
        files.append((tmp_path / name / "summary.csv").read_bytes())
    assert files[0] == files[1]


def test_rows_and_columns(tmp_path: Path) -> None:
    collection, runs = eventful(tmp_path)
    summary = write_summary(collection, runs, tmp_path / "summary.csv")
    rows = rows_of(tmp_path / "summary.csv")
    assert (summary.finished, summary.total, len(rows)) == (6, 9, 6)
    assert list(rows[0])[:6] == ["collection", "setting", "seed", "label", "hidden", "steps"]
    assert rows[0]["hidden"] == "16" and rows[0]["steps"] == "400" and rows[0]["label"] == "hidden=16"
    run = next(collection.runs())
    assert float(rows[0]["metrics.skill.consensus.nse"]) == result_of(run)["metrics"]["skill"]["consensus"]["nse"]
    assert not {"attempt", "resubmit_count"} & set(rows[0])


def test_no_finished_run_gives_a_head_alone(tmp_path: Path) -> None:
    collection = collection_of(tmp_path)
    summary = write_summary(collection, tmp_path / "runs", tmp_path / "summary.csv")
    assert (tmp_path / "summary.csv").read_text() == "collection,setting,seed,label,hidden,steps\n"
    assert summary.line == "rivers: 0 of 9 runs finished"


def test_numbers_keep_their_kind_where_some_are_missing(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, grid={"hidden": [16]}, seeds=2)
    first, second = collection.runs()
    Story(first, tmp_path / "runs").begin().finish(count=3, exact=0.1 + 0.2, flag=True).write()
    Story(second, tmp_path / "runs").begin().finish(note='a "quoted", text\nin two lines').write()
    write_summary(collection, tmp_path / "runs", tmp_path / "summary.csv")
    one, two = rows_of(tmp_path / "summary.csv")
    assert (one["count"], one["exact"], one["flag"], one["note"]) == ("3", "0.30000000000000004", "True", "")
    assert (two["count"], two["note"]) == ("", 'a "quoted", text\nin two lines')


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "\x00\xff", '"text"'])
def test_a_result_that_cannot_be_read_is_no_finished_run(tmp_path: Path, content: str) -> None:
    collection = collection_of(tmp_path, grid={"hidden": [16]}, seeds=1)
    (run,) = collection.runs()
    Story(run, tmp_path / "runs").begin().finish().write()
    run.paths(tmp_path / "runs").result.write_bytes(content.encode("latin-1"))
    summary = summarise(collection, tmp_path / "runs")
    assert (summary.finished, summary.total) == (0, 1)
    assert summary.unfinished[0].problems and summary.unfinished[0].state == "pending"


def test_varying_keys_come_from_all_settings(tmp_path: Path) -> None:
    collection = collection_of(
        tmp_path, grid=None, settings=[{"optim.lr": 0.1}, {"optim.lr": 0.2, "depth": 3}, {"steps": 4}]
    )
    assert varying_keys(collection) == [("depth",), ("optim", "lr"), ("steps",)]
    assert list(summarise(collection, tmp_path).table)[4:] == ["depth", "optim.lr", "config.steps", "steps"]


def test_a_result_key_named_like_an_experiment_key_keeps_both(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, grid={"hidden": [16, 32]}, seeds=1)
    for run in collection.runs():
        Story(run, tmp_path / "runs").begin().finish(hidden=99).write()
    write_summary(collection, tmp_path / "runs", tmp_path / "summary.csv")
    assert [(row["hidden"], row["result.hidden"]) for row in rows_of(tmp_path / "summary.csv")] == [
        ("16", "99"),
        ("32", "99"),
    ]


def test_scalars_leave_lists_out() -> None:
    assert scalars({"a": {"b": 1, "c": [1, 2]}, "d": None, "e": "x"}) == {"a.b": 1, "d": None, "e": "x"}


def test_means_and_spreads(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, grid={"hidden": [16]}, seeds=4)
    for run, value in zip(collection.runs(), (1.0, 3.0, float("nan"), None), strict=True):
        Story(run, tmp_path / "runs").begin().finish(nse=value).write()
    table = setting_table(collection, read_records(collection, tmp_path / "runs"))
    cell = table.rows[0].cells["nse"]
    assert table.metrics == ["nse"]
    assert cell.mean == 2.0 and cell.spread == pytest.approx(2**0.5)


def test_short_names() -> None:
    assert short_names(["metrics.a.x", "metrics.a.y"]) == {"metrics.a.x": "x", "metrics.a.y": "y"}
    assert short_names(["metrics.a", "loss"]) == {"metrics.a": "a", "loss": "loss"}
    assert short_names(["metrics.a", "a"]) == {"metrics.a": "metrics.a", "a": "a"}
    assert short_names(["metrics.a"]) == {"metrics.a": "a"}
    assert short_names([]) == {}


def test_outcome_names_each_failed_run_its_reason_and_log(tmp_path: Path) -> None:
    from unbroken.collection import load_config

    collection, runs = eventful(tmp_path)
    project = load_config({"collections": ["rivers"], "runs_dir": str(runs), "results_dir": str(tmp_path / "results")})
    lines = list(conclude(collection, project))
    home = tmp_path / "results" / "rivers"
    assert lines[0] == f"rivers: 6 of 9 runs finished; summary: {home}/summary.csv, report: {home}/report.html"
    assert len(lines) == 2
    assert "hidden=64 seed=0" in lines[1] and "out of memory" in lines[1] and "attempt_1.log" in lines[1]
    assert "\n" not in "".join(lines)
    assert (home / "summary.csv").is_file() and (home / "report.html").is_file()


def test_outcome_leaves_alone_what_the_call_has_made(tmp_path: Path) -> None:
    from unbroken.collection import load_config

    collection, runs = eventful(tmp_path)
    project = load_config({"collections": ["rivers"], "runs_dir": str(runs), "results_dir": str(tmp_path / "results")})
    home = tmp_path / "results" / "rivers"
    list(conclude(collection, project, {str(home / "summary.csv"), str(home / "report.html")}))
    assert not home.exists()


def test_outcome_never_raises(tmp_path: Path) -> None:
    from unbroken.collection import load_config

    collection, runs = eventful(tmp_path)
    (tmp_path / "results").write_text("a file where the folder should be")
    project = load_config({"collections": ["rivers"], "runs_dir": str(runs), "results_dir": str(tmp_path / "results")})
    assert next(iter(conclude(collection, project))).startswith("unbroken: cannot write into")


def test_many_failures_are_counted_not_listed(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, grid={"hidden": [16]}, seeds=30)
    for run in collection.runs():
        Story(run, tmp_path / "runs").begin().crash("crashed:\nin two lines").write(metrics=False)
    lines = list(failure_lines(list(read_records(collection, tmp_path / "runs")), 20))
    assert len(lines) == 21 and lines[-1].strip() == "and 10 more failed runs; the report names every one"
    assert "crashed: in two lines" in lines[0]


def test_the_terminal_table_is_short(tmp_path: Path) -> None:
    collection, runs = eventful(tmp_path)
    out = io.StringIO()
    print_summary(collection, runs, tmp_path / "results", Console(file=out, width=100))
    text = out.getvalue()
    assert "hidden=16" in text and "3/3" in text and "0/3" in text and "±" in text
    assert "6 of 9 runs finished" in text and "failed: hidden=64 seed=0" in text
    assert len(text.splitlines()) < 20

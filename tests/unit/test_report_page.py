"""report.html from complete, partial, empty, huge and hostile run directories."""

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.report_runs import START, Story, collection_of, eventful, result_of, write_metrics

from unbroken.collection import Collection
from unbroken.report import report_html, write_report
from unbroken.report.jobs import Jobs
from unbroken.report.markup import Markup, clean, tag, text

NOW = START + 60_000
HOSTILE = "</pre></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31mred\x1b[0m\x00\u202egnp.exe"
VOID = {"meta", "br", "hr", "wbr", "img", "col"}


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbroken.report.jobs.client.available", lambda command: False)


class Checker(HTMLParser):
    """Collects elements and complains about unbalanced ones."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open and self.open[-1] == name, f"</{name}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.words.append(data)


def checked(collection: Collection, runs: Path) -> tuple[Checker, str]:
    """The page, well-formed, without scripts and without anything that is loaded from elsewhere."""
    page = report_html(collection, runs, jobs=Jobs(), now=NOW)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    names = {name for name, _ in checker.found}
    assert not names & {"script", "img", "iframe", "link", "object", "embed", "base", "form"}
    for name, attributes in checker.found:
        assert not any(key.startswith("on") for key in attributes), (name, attributes)
        for key in ("href", "src", "xlink:href", "data", "action"):
            assert (attributes.get(key) or "#").startswith("#"), (name, attributes)
    assert not re.search(r"@import|url\((?!#p-)", page)
    ids = [attributes["id"] for _, attributes in checker.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    return checker, " ".join(" ".join(checker.words).split())


def test_every_section(tmp_path: Path) -> None:
    collection, runs = eventful(tmp_path)
    _, words = checked(collection, runs)
    for part in (
        "Not finished, and why",
        "Results",
        "Time line",
        "Loss curves",
        "Where the time went",
        "Resources asked for",
    ):
        assert part in words
    assert "6 of 9" in words and "14 attempts of 8 runs" in words and "out of memory" in words
    assert "Wasted by crashes" in words and "GPU-hours" in words and "1.4 GiB of 3.9 GiB" in words


def test_no_run_has_begun(tmp_path: Path) -> None:
    _, words = checked(collection_of(tmp_path), tmp_path / "runs")
    assert "0 of 9" in words and "No run has finished yet" in words and "No run has begun yet" in words


def test_a_single_run(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, grid=None, config={"hidden": 8}, seeds=1)
    (run,) = collection.runs()
    Story(run, tmp_path / "runs").begin().train(400).finish(**result_of(run)).write()
    _, words = checked(collection, tmp_path / "runs")
    assert "1 of 1" in words and "1 × 1" in words and "Not finished" not in words


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    collection = collection_of(
        tmp_path,
        description=HOSTILE.replace("\x00", ""),
        grid={"kind": [HOSTILE.replace("\x00", ""), "plain"]},
        seeds=1,
    )
    for run in collection.runs():
        story = Story(run, tmp_path / "runs").begin().train(50)
        story.event("code_changed", before={HOSTILE: 1}, after=HOSTILE)
        story.event("checkpoint_saved", global_step=HOSTILE, seconds=HOSTILE)
        story.crash(HOSTILE, HOSTILE).write(log=HOSTILE * 3 + "\n" + "long " * 9000)
        write_metrics(story.paths.metrics, [1.0, float("nan"), float("inf"), 0.5], (HOSTILE,))
        story.paths.profile.mkdir()
        (story.paths.profile / f"table{len(HOSTILE)}.txt").write_text(HOSTILE)
    checker, words = checked(collection, tmp_path / "runs")
    assert "alert(1)" in words and "\x00" not in words and "\x1b" not in words and "\u202e" not in words
    assert all("\x1b" not in str(value) for _, attributes in checker.found for value in attributes.values())


@pytest.mark.parametrize(
    "name", ["run_status.json", "result.json", "events.jsonl", "metrics.csv", "logs", "profile", "lease"]
)
@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"[[[[", b"null", b'{"status": 5, "attempt": "x"}', b"a,b\n1"]
)
def test_one_spoilt_file_costs_only_itself(tmp_path: Path, name: str, content: bytes) -> None:
    collection = collection_of(tmp_path, grid={"hidden": [16]}, seeds=2)
    for run in collection.runs():
        Story(run, tmp_path / "runs").begin().train(100).preempt(100).wait(9).begin().train(300).finish(nse=0.5).write()
    path = run.paths(tmp_path / "runs").root / name
    if path.is_dir():
        for file in path.iterdir():
            file.write_bytes(content)
    else:
        path.write_bytes(content)
    _, words = checked(collection, tmp_path / "runs")
    assert "of 2" in words and "nse" in words
    run.paths(tmp_path / "runs").result.unlink(missing_ok=True)
    checked(collection, tmp_path / "runs")


def test_five_hundred_runs(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, grid={"hidden": list(range(1, 51))}, seeds=10)
    for index, run in enumerate(collection.runs()):
        story = Story(run, tmp_path / "runs", clock=START + index).begin()
        if index % 7 == 0:
            story.train(100).preempt(100).wait(60).begin()
        if index % 50 == 49:
            story.train(90).crash().write(metrics=False)
        else:
            story.train(400 - story.step).finish(nse=index / 500).write(metrics=index < 300)
    began = time.monotonic()
    page = write_report(collection, tmp_path / "runs", tmp_path / "report.html")
    seconds = time.monotonic() - began
    assert page is None and seconds < 20
    html = (tmp_path / "report.html").read_text()
    assert len(html) < 3_000_000
    for stated in ("60 of 500 runs are drawn", "24 of 50 settings are drawn", "490 of 500", "10 runs failed"):
        assert stated in html


def test_long_gaps_are_left_out_and_said(tmp_path: Path) -> None:
    collection, runs = eventful(tmp_path)
    assert "in which nothing happened are left out" in report_html(collection, runs, jobs=Jobs(), now=NOW)


def test_the_page_is_written_whole(tmp_path: Path) -> None:
    collection, runs = eventful(tmp_path)
    write_report(collection, runs, tmp_path / "out" / "report.html")
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def test_profiles_are_shown(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, grid=None, config={"hidden": 8}, seeds=1)
    (run,) = collection.runs()
    story = Story(run, tmp_path / "runs").begin().train(400).finish()
    story.write()
    story.paths.profile.mkdir()
    (story.paths.profile / "key_averages.txt").write_text("aten::addmm   99.1 %\n" * 3)
    _, words = checked(collection, tmp_path / "runs")
    assert "Profiles" in words and "aten::addmm 99.1 %" in words


def test_markup_escapes() -> None:
    assert tag("a", "<b>", href='"x"') == '<a href="&quot;x&quot;">&lt;b&gt;</a>'
    assert tag("p", Markup("<i>ok</i>"), 5, None) == "<p><i>ok</i>5</p>"
    assert text(json.dumps({"a": "<"})) == "{&quot;a&quot;: &quot;&lt;&quot;}"
    assert clean("\x1b[1;31mx\x1b[0m\x07\u202ey\ud800") == "x\ufffdy\ufffd"

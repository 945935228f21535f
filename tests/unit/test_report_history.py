"""From events to intervals: what was kept, lost, replayed, queued; every second counted once."""

from pathlib import Path

import pytest
from tests.report_runs import START, Story, collection_of, set_log_times

from unbroken.collection import Run
from unbroken.report.history import History, read_history
from unbroken.report.ledger import add_up, gpus_of
from unbroken.report.records import read_record
from unbroken.report.text import duration, hours, number, parse_time, short
from unbroken.slurm.accounting_rows import FIELDS, SEPARATOR, AccountingRow, parse_accounting

NOW = START + 1e6


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return next(collection_of(tmp_path).runs())


def told(story: Story, rows: list[AccountingRow] | None = None) -> History:
    story.write()
    set_log_times(story)
    return read_history(read_record(story.run, story.runs_dir), NOW, rows or [])


def covers(history: History) -> None:
    """The spans of each attempt follow one another and cover it."""
    for attempt in history.attempts:
        assert attempt.spans[0].start == attempt.start and attempt.spans[-1].end == attempt.end
        for before, after in zip(attempt.spans, attempt.spans[1:], strict=False):
            assert before.end == after.start


def test_an_unbroken_run(run: Run, tmp_path: Path) -> None:
    history = told(Story(run, tmp_path / "runs").begin().train(400).finish())
    covers(history)
    (attempt,) = history.attempts
    assert (attempt.ending, attempt.last_step, len(attempt.saves)) == ("completed", 400, 10)
    assert attempt.spent("running") == pytest.approx(2400) and attempt.spent("saving") == pytest.approx(200)
    assert history.interruptions == [] and history.queued == []


def test_a_preemption_loses_nothing(run: Run, tmp_path: Path) -> None:
    story = Story(run, tmp_path / "runs", job="7").begin().train(100).preempt(100).wait(121).begin().train(300).finish()
    history = told(story)
    covers(history)
    first, second = history.attempts
    assert first.ending == "interrupted" and "SIGTERM" in first.reason and second.first_step == 100
    assert second.spent("starting") == pytest.approx(40)
    assert not any(attempt.spent("lost", "replayed") for attempt in history.attempts)
    assert [span.seconds for span in history.queued] == [pytest.approx(121)]


def test_a_crash_loses_what_was_not_saved_and_the_next_attempt_replays_it(run: Run, tmp_path: Path) -> None:
    history = told(Story(run, tmp_path / "runs").begin().train(100).crash().wait(9000).begin().train(320).finish())
    covers(history)
    first, second = history.attempts
    assert first.ending == "failed" and first.spent("lost") == pytest.approx(20 * 6)
    assert second.spent("replayed") == pytest.approx(20 * 6) and second.first_step == 80
    assert history.queued == [], "nobody waited in a queue"
    ledger = add_up([history])
    assert ledger.seconds["lost_crash"] == pytest.approx(120) and ledger.seconds["lost_interruption"] == 0
    assert ledger.allocated == pytest.approx(sum(attempt.seconds for attempt in history.attempts))


def test_a_lost_node_ends_when_its_log_ends(run: Run, tmp_path: Path) -> None:
    history = told(
        Story(run, tmp_path / "runs", job="7").begin().train(80).vanish().wait(700).begin().train(320).finish()
    )
    covers(history)
    first = history.attempts[0]
    assert first.ending == "killed" and first.spent("lost") == pytest.approx(180)
    assert history.queued[0].seconds == pytest.approx(520)


def test_losing_the_same_steps_twice_is_replayed_once(run: Run, tmp_path: Path) -> None:
    story = Story(run, tmp_path / "runs").begin().train(70).crash().wait(5).begin().train(20).crash().wait(5)
    history = told(story.begin().train(360).finish())
    covers(history)
    lost = [attempt.spent("lost") for attempt in history.attempts]
    assert lost == [pytest.approx(180), pytest.approx(120), 0]
    assert history.attempts[2].spent("replayed") == pytest.approx(180), "the longer of the two"


def test_a_trainer_that_tells_no_saves_has_unknown_losses(tmp_path: Path) -> None:
    collection = collection_of(tmp_path, trainer=None, command="python train.py {config}")
    story = Story(next(collection.runs()), tmp_path / "runs").begin().wait(300).crash()
    history = told(story)
    assert not history.saves_known and history.attempts[0].spent("running") == pytest.approx(300)
    assert add_up([history]).runs_without_saves == 1


@pytest.mark.parametrize("refused", [False, True])
def test_a_requeue_is_an_interruption_even_of_a_silent_trainer(tmp_path: Path, refused: bool) -> None:
    collection = collection_of(tmp_path, trainer=None, command="python train.py {config}")
    story = Story(next(collection.runs()), tmp_path / "runs", job="7").begin().wait(300)
    story.event("requeued", slurm_job_id="7")
    if refused:
        story.event("requeue_refused", slurm_job_id="7", reason="disabled")
    history = told(story.wait(60).begin().wait(100).finish())
    assert [(attempt.ending, attempt.seconds) for attempt in history.attempts] == [
        ("interrupted", 300),
        ("completed", 100),
    ]
    assert [span.seconds for span in history.queued] == ([] if refused else [60])


def test_a_shutdown_that_could_not_save_loses(run: Run, tmp_path: Path) -> None:
    story = Story(run, tmp_path / "runs").begin().train(60)
    story.event("graceful_shutdown", signal="SIGTERM", global_step=60, saved=False)
    (attempt,) = told(story).attempts
    assert attempt.spent("lost") > 0 and attempt.last_step == 40


@pytest.mark.parametrize(
    "line", ["", "not json", "[]", '{"event": "run_started"}', '{"time": 5, "event": "run_started", "attempt": 1}']
)
def test_torn_and_strange_events_are_passed_over(run: Run, tmp_path: Path, line: str) -> None:
    story = Story(run, tmp_path / "runs").begin().train(400).finish()
    story.write()
    story.paths.events.write_text(line + "\n" + story.paths.events.read_text() + line)
    assert len(read_history(read_record(run, tmp_path / "runs"), NOW).attempts) == 1


def test_events_out_of_order_give_no_negative_time(run: Run, tmp_path: Path) -> None:
    story = Story(run, tmp_path / "runs").begin().train(100).wait(-5000).preempt(100).wait(3).begin().wait(-99).finish()
    history = told(story)
    assert all(
        attempt.seconds >= 0 and all(span.seconds >= 0 for span in attempt.spans) for attempt in history.attempts
    )


def accounting(*rows: dict[str, str]) -> list[AccountingRow]:
    names = FIELDS.split(",")
    return parse_accounting("\n".join(SEPARATOR.join(row.get(name, "") for name in names) for row in rows))


def test_accounting_knows_better_than_the_log(run: Run, tmp_path: Path) -> None:
    story = Story(run, tmp_path / "runs", job="7").begin().train(80).vanish()
    rows = accounting({
        "JobID": "7", "JobIDRaw": "7", "State": "NODE_FAIL", "Submit": "2026-05-04T19:50:00+0000",
        "Start": "2026-05-04T19:59:50+0000", "End": "2026-05-04T20:15:00+0000", "AllocTRES": "cpu=2,gres/gpu=2",
    })  # fmt: skip
    history = told(story, rows)
    assert history.attempts[0].end == START + 900
    assert history.queued[0].seconds == pytest.approx(600)
    assert add_up([history]).gpu_allocated == pytest.approx(1800)


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [({}, 0), ({"gpu": 2}, 2), ({"gres": "gpu:1"}, 1), ({"gres": "gpu:a100:4"}, 4), ({"gres": "gpu"}, 1),
     ({"gpus": "a100:2"}, 2),
     ({"gres": "shard:1,gpu:3"}, 3), ({"gres": "nvme:100"}, 0)],
)  # fmt: skip
def test_gpus_as_a_collection_asks_for_them(resources: dict[str, object], gpus: float) -> None:
    assert gpus_of(resources) == gpus


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3, "3"), (1234567, "1,234,567"), (0.63481, "0.6348"), (-0.00012345, "-0.0001234"), (1e-9, "1.000e-09"),
     (float("nan"), "nan"), (True, "True"), (None, ""), ("x", "x"), (2.0, "2"), (123456.0, "123,456"),
     (10**9, "1.000e+09")],
)  # fmt: skip
def test_numbers(value: object, text: str) -> None:
    assert number(value) == text


def test_times_and_durations() -> None:
    assert [duration(value) for value in (None, 0, 0.02, 4, 75, 3600, 3700, 90_061, 9e6)] == [
        "", "0 s", "20 ms", "4.0 s", "1 min 15 s", "1 h", "1 h 1 min", "1 d 1 h", "104 d"]  # fmt: skip
    assert parse_time("2026-05-04T20:00:00Z") == parse_time("2026-05-04T22:00:00+0200") == START
    assert parse_time("Unknown") is None and parse_time(5) is None and parse_time(None) is None
    assert (hours(1800), hours(1800, 7200), short(0.1), short(2000)) == ("0.5000", "0.50", "0.1", "2,000")

"""Unwarned ends of a collection's attempts, and the interval that follows from them."""

import json
from pathlib import Path

import pytest

from unbroken.run_dir.unwarned import PRIOR_HOURS, Observed, count, observe
from unbroken.training import interval


def at(hours: float) -> str:
    return f"2026-01-{1 + int(hours) // 24:02}T{int(hours) % 24:02}:{int(hours % 1 * 60):02}:00.000Z"


def events(*rows: tuple[float, str], **details: str) -> list[dict[str, str]]:
    return [{"time": at(hours), "event": name, **(details if name == "run_failed" else {})} for hours, name in rows]


@pytest.mark.parametrize(
    ("rows", "details", "ends", "hours"),
    [
        ([(0, "run_started"), (2, "checkpoint_saved"), (3, "graceful_shutdown")], {}, 0, 3.0),
        ([(0, "run_started"), (2, "run_completed")], {}, 0, 2.0),
        ([(0, "run_started"), (2, "checkpoint_saved"), (5, "run_started"), (6, "run_completed")], {}, 1, 3.0),
        ([(0, "run_started"), (2, "checkpoint_saved")], {}, 0, 2.0),  # may still be running
        ([(0, "run_started"), (2, "run_failed")], {"failure": "killed"}, 1, 2.0),
        ([(0, "run_started"), (2, "run_failed")], {"failure": "out_of_memory"}, 1, 2.0),
        ([(0, "run_started"), (2, "run_failed"), (3, "run_started")], {"failure": "crash"}, 0, 2.0),
        ([(0, "run_started"), (1, "requeued"), (3, "run_started"), (4, "run_completed")], {}, 0, 2.0),
    ],
)
def test_ends(rows: list[tuple[float, str]], details: dict[str, str], ends: int, hours: float) -> None:
    assert count(events(*rows, **details)) == Observed(ends, hours)


def test_a_line_without_a_time_is_passed_over() -> None:
    assert count([{"event": "run_started"}, {"time": "?", "event": "run_failed"}]) == Observed(0, 0.0)


def write(folder: Path, rows: list[dict[str, str]]) -> None:
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_rate_is_that_of_all_sibling_runs_and_the_log_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert observe(tmp_path / "nowhere") == Observed()
    write(tmp_path / "a/seed_0", events((0, "run_started"), (10, "checkpoint_saved"), (11, "run_started")))
    write(tmp_path / "b/seed_1", events((0, "run_started"), (6, "run_failed"), failure="killed"))
    write(tmp_path / "b/seed_2", events((0, "run_started"), (20, "run_completed")))
    (tmp_path / "b/seed_3").mkdir()
    (tmp_path / "note.txt").touch()
    seen = observe(tmp_path)
    assert seen == Observed(2, 36.0)
    assert seen.mean_hours == (36 + PRIOR_HOURS) / 3
    clock = [0.0]
    monkeypatch.setattr(interval.time, "monotonic", lambda: clock[0])
    auto = interval.Interval("auto", observe=lambda: seen)
    auto.saved(0.5, 0.5)
    wanted = (2 * 0.5 * seen.mean_hours * 3600) ** 0.5
    assert f"one save every {wanted:.0f} s (a save costs 0.5 s, one unwarned end in 13.3 h (2 in 36 h" in (
        capfd.readouterr().out
    )
    clock[0] = wanted - 0.1
    assert not auto.due(7)
    clock[0] = wanted + 0.1
    assert auto.due(7)


def test_a_slow_disk_and_a_cheap_save_bound_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(interval.time, "monotonic", lambda: clock[0])
    cheap, slow = interval.Interval("auto"), interval.Interval("auto")
    cheap.saved(1e-6, 0.01)
    slow.saved(0.01, 900.0)
    assert cheap._wait_s == interval.AT_LEAST_S
    assert slow._wait_s == interval.WRITES_BETWEEN * 900
    assert "one unwarned end in 4 h" in str(Observed())

"""Trainers with one fault each: the drill fails and names it, the cause before its effects."""

from pathlib import Path

import pytest

from tests.integration.drill_kit import by_fault, collection, command, drill

OWN = {"epochs": 8, "pace_s": 0.012}
CARELESS = {"steps": 120, "ignore": False, "in_place": False}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forgotten", "part", "advice"),
    [
        ("rng", "torch RNG", "restore it after building the iterator"),
        ("optimizer", "optimizer", "optimizer.state_dict()"),
        ("order", "order", "seed + epoch"),
    ],
)
def test_a_state_that_is_not_restored(tmp_path: Path, forgotten: str, part: str, advice: str) -> None:
    path = collection(tmp_path, "own", command=command("own_trainer.py"), config={**OWN, "forget": forgotten})
    report = drill(tmp_path, path, "TERM")
    assert not report.passed and report.traced, report.as_json()
    assert by_fault(report)["TERM"].differences
    first = report.findings[0]
    assert first.part == part and advice in first.advice and f"{part} differs first" in first.text


@pytest.mark.slow
def test_the_same_trainer_whole_passes_although_it_notes_the_time(tmp_path: Path) -> None:
    config = {**OWN, "forget": "nothing", "stamp": True}
    report = drill(tmp_path, collection(tmp_path, "own", command=command("own_trainer.py"), config=config), "TERM")
    assert report.passed, report.as_json()
    assert "result.json finished_at not compared: no two runs agree" in by_fault(report)["TERM"].notes


@pytest.mark.slow
def test_ignored_signals(tmp_path: Path) -> None:
    config = {**CARELESS, "ignore": True}
    path = collection(tmp_path, "own", command=command("careless_trainer.py"), config=config)
    report = drill(tmp_path, path, "TERM", "KILL")
    assert by_fault(report)["TERM"].verdict == "fail" and by_fault(report)["KILL"].verdict == "pass"
    assert "ignores the signal" in report.findings[0].text and "sys.exit(42)" in report.findings[0].advice


@pytest.mark.slow
def test_signals_that_are_ignored_for_too_long(tmp_path: Path) -> None:
    config = {**CARELESS, "ignore": True, "steps": 400}
    path = collection(tmp_path, "own", command=command("careless_trainer.py"), config=config)
    report = drill(tmp_path, path, "TERM", grace_s=0.3)
    assert "does not stop" in by_fault(report)["TERM"].problem


@pytest.mark.slow
def test_a_checkpoint_written_in_place(tmp_path: Path) -> None:
    config = {**CARELESS, "in_place": True}
    path = collection(tmp_path, "own", command=command("careless_trainer.py"), config=config)
    report = drill(tmp_path, path, "TERM")
    assert not report.passed and report.findings[0].part == "save"
    assert "os.replace" in report.findings[0].advice


@pytest.mark.slow
def test_a_careful_one_passes(tmp_path: Path) -> None:
    path = collection(tmp_path, "own", command=command("careless_trainer.py"), config=CARELESS)
    report = drill(tmp_path, path, "TERM", "USR2", "INT", at=[40], random=0)
    assert report.passed, report.as_json()

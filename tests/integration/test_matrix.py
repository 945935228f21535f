"""Every built-in trainer, interrupted at every effective batch by every signal, with and without workers: same bits.

The signals are real (``os.kill``) and meet the real handlers; the trainers run in this process, so that 280 cells
stay affordable.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.trainers_kit import (
    CONSENSUS,
    DISENTANGLED,
    FULL,
    PLAIN,
    PRETRAINED,
    SIGNALS,
    TRAINERS,
    Trainer,
    attempt,
    to_the_end,
)
from tests.unit.training_kit import differences, events, outcome, quiet_process, signal_at, status
from unbroken.training import checkpoint
from unbroken.training.evaluation import Evaluation

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
EACH = pytest.mark.parametrize("trainer", TRAINERS, ids=str)


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    found = {}
    with quiet_process():
        for trainer in TRAINERS:
            folder = tmp_path_factory.mktemp(trainer.name)
            assert attempt(trainer, folder) == 0
            found[trainer.name] = outcome(folder)
    return found


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("step", range(7))
def test_matrix(
    tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer, step: int, name: str, workers: int
) -> None:
    with signal_at(step, name):
        assert attempt(trainer, tmp_path, num_workers=workers) == 42
    assert status(tmp_path)["global_step"] == step
    assert [(event["global_step"], event["signal"]) for event in events(tmp_path, "graceful_shutdown")] == [
        (step, name)
    ]
    assert attempt(trainer, tmp_path, num_workers=workers if step % 2 else 2 - workers) == 0
    assert differences(undisturbed[trainer.name], outcome(tmp_path)) == []


@EACH
def test_the_run_is_a_test_of_something(undisturbed: dict[str, Any], trainer: Trainer) -> None:
    """Weights move, the random generators are used, epochs end where the matrix says, an fp16 scale overflows once."""
    found = undisturbed[trainer.name]
    assert json.loads(found["result"])["steps"] == trainer.steps
    rows = found["metrics"].decode().splitlines()[1:]
    assert [row.split(",")[1] for row in rows] == ["0"] * trainer.per_epoch + ["1"] * trainer.per_epoch
    assert len({row.split(",")[3] for row in rows}) == trainer.steps
    if trainer is FULL:
        states = found["last.pt"]["states"]
        assert states["ema"]["updates"] == trainer.steps
        steps = {float(state["step"]) for state in states["optimizer"]["state"].values()}
        assert len(steps) == 1 and 0 < steps.pop() < trainer.steps, "an overflow skips a step of the optimizer"


@EACH
def test_three_interruptions_in_one_epoch(tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer) -> None:
    for step, times in ((1, 1), (2, 2), (3, 3)):
        with signal_at(step, times=times):
            assert attempt(trainer, tmp_path) == 42
    assert attempt(trainer, tmp_path) == 0
    assert differences(undisturbed[trainer.name], outcome(tmp_path)) == []
    assert [event["global_step"] for event in events(tmp_path, "graceful_shutdown")] == [1, 2, 3]


@EACH
def test_twice_in_a_row_at_the_same_place(tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer) -> None:
    """Stopped, started again and stopped before the next effective batch: nothing is lost, nothing is done twice."""
    with signal_at(4):
        assert attempt(trainer, tmp_path) == 42
    with signal_at(0, "SIGUSR1"):
        assert attempt(trainer, tmp_path) == 42
    assert status(tmp_path)["global_step"] == 4
    assert attempt(trainer, tmp_path) == 0
    assert differences(undisturbed[trainer.name], outcome(tmp_path)) == []


@EACH
@pytest.mark.parametrize("which", [1, 2])
def test_during_an_evaluation(
    tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C03: the signal comes inside evaluation number ``which``; the evaluation is done again after the resume."""
    real, seen = Evaluation.run, []

    def run_evaluation(self: Evaluation) -> None:
        seen.append(self._state.global_step)
        if len(seen) == which:
            os.kill(os.getpid(), signal.SIGTERM)
        real(self)

    monkeypatch.setattr(Evaluation, "run", run_evaluation)
    assert attempt(trainer, tmp_path) == 42
    assert status(tmp_path)["global_step"] == seen[-1]
    assert attempt(trainer, tmp_path) == 0
    assert differences(undisturbed[trainer.name], outcome(tmp_path)) == []


@EACH
def test_during_a_save(
    tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C01: one signal in every stage of every save; each save is completed, each attempt ends with 42."""
    sent: set[str] = set()

    def stage(name: str) -> None:
        if name not in sent:
            sent.add(name)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(checkpoint, "_stage", stage)
    to_the_end(trainer, tmp_path)
    assert sent == set(checkpoint.STAGES)
    assert differences(undisturbed[trainer.name], outcome(tmp_path)) == []


@EACH
def test_workers_change_no_result(tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer) -> None:
    """C24."""
    assert attempt(trainer, tmp_path, num_workers=3) == 0
    assert differences(undisturbed[trainer.name], outcome(tmp_path)) == []


def test_seeds_and_settings_change_the_result(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    for number, (trainer, change) in enumerate(
        [(PLAIN, {"seed": 4}), (PRETRAINED, {"pretrained": {"steps": 2, "seed": 2}}), (DISENTANGLED, {"beta": 3.0}),
         (CONSENSUS, {"seed": 4}), (FULL, {"accumulation": 1})]
    ):  # fmt: skip
        folder = tmp_path / str(number)
        assert attempt(trainer, folder, **change) == 0
        assert any("states.model" in name for name in differences(undisturbed[trainer.name], outcome(folder)))

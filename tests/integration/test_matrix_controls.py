"""Negative controls of the matrix: leave one state out of the restore, and the equality must fail.

A control that passes would mean that the matrix cannot see that state.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.trainers_kit import CONSENSUS, DISENTANGLED, FULL, PLAIN, TRAINERS, Trainer, attempt
from tests.unit.training_kit import differences, outcome, quiet_process, signal_at
from unbroken.training import order, position, resume, rng

STEP = 4


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


def stopped(trainer: Trainer, folder: Path) -> None:
    with signal_at(STEP):
        assert attempt(trainer, folder) == 42


STATES = [
    (trainer, state)
    for trainer in TRAINERS
    for state in ("model", "optimizer", "scheduler", "scaler", "ema")
    if state in ("model", "optimizer")
    or (state == "scheduler" and trainer is not DISENTANGLED)
    or (state == "scaler" and trainer is FULL)
    or (state == "ema" and trainer in (FULL, CONSENSUS))
]


@pytest.mark.parametrize(("trainer", "state"), STATES, ids=str)
def test_without_a_state(
    tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C20, C21."""
    stopped(trainer, tmp_path)
    monkeypatch.delitem(resume.RESTORERS, state)
    assert attempt(trainer, tmp_path) == 0
    changed = differences(undisturbed[trainer.name], outcome(tmp_path))
    assert changed, f"the matrix does not see {state}"
    if state in ("model", "optimizer", "scheduler"):
        assert any(name.startswith(".last.pt.states.model") for name in changed)
    if state == "ema":
        assert ".last.pt.states.ema.updates" in changed and ".result" in changed


@pytest.mark.parametrize("trainer", TRAINERS, ids=str)
def test_without_the_random_state(
    tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropout and the latent noise draw from torch's global generator."""
    stopped(trainer, tmp_path)
    monkeypatch.delitem(rng.RESTORERS, "torch")
    assert attempt(trainer, tmp_path) == 0
    changed = differences(undisturbed[trainer.name], outcome(tmp_path))
    assert any(name.startswith(".last.pt.states.model") for name in changed)


@pytest.mark.parametrize("trainer", TRAINERS, ids=str)
def test_with_the_order_of_epoch_0_again(
    tmp_path: Path, undisturbed: dict[str, Any], trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C18."""
    stopped(trainer, tmp_path)
    real = order.epoch_order
    monkeypatch.setattr(order, "epoch_order", lambda seed, epoch, records: real(seed, 0, records))
    assert attempt(trainer, tmp_path) == 0
    assert ".metrics" in differences(undisturbed[trainer.name], outcome(tmp_path))


@pytest.mark.parametrize("shift", [-1, 1])
def test_with_one_effective_batch_again_or_lost(
    tmp_path: Path, undisturbed: dict[str, Any], shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C19: the slice of the epoch that an effective batch takes is off by one."""
    stopped(PLAIN, tmp_path)
    real = position.Plan.group
    monkeypatch.setattr(position.Plan, "group", lambda self, batch: real(self, (batch + shift) % self.per_epoch))
    assert attempt(PLAIN, tmp_path) == 0
    assert ".metrics" in differences(undisturbed[PLAIN.name], outcome(tmp_path))

"""Cases C20, C21, C22 and C25 of the public reports on the real trainers; the others are in the tests of the toy."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.trainers_kit import FULL, PLAIN, TRAINERS, Trainer, attempt
from tests.unit.training_kit import outcome, quiet_process, signal_at
from unbroken.errors import CollectionError, IdentityMismatch
from unbroken.trainers.schedule import WarmupCosine, factor


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        yield


def column(folder: Path, name: str) -> list[float]:
    header, *rows = (line.split(",") for line in (folder / "metrics.csv").read_text().splitlines())
    return [float(row[header.index(name)]) for row in rows]


def test_learning_rate_trace_after_three_stops_c20(tmp_path: Path) -> None:
    for step in (1, 3, 5):
        with signal_at(step):
            assert attempt(FULL, tmp_path) == 42
    assert attempt(FULL, tmp_path) == 0
    assert column(tmp_path, "lr") == [0.003 * factor(step, 2, 6, 0.1) for step in range(6)]


def test_scaler_average_and_its_counter_over_an_overflow_c21(tmp_path: Path) -> None:
    """The first effective batch overflows: the optimizer skips it, the scale halves, and both outlive a stop there."""
    with signal_at(1):
        assert attempt(FULL, tmp_path) == 42
    states = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)["states"]
    assert states["scaler"]["scale"] == 2.0**19 and states["optimizer"]["state"] == {}
    assert states["ema"]["updates"] == states["scheduler"]["steps"] == 1
    assert attempt(FULL, tmp_path) == 0
    assert attempt(FULL, tmp_path / "whole") == 0
    whole, ours = outcome(tmp_path / "whole")["last.pt"]["states"], outcome(tmp_path)["last.pt"]["states"]
    assert ours["scaler"] == whole["scaler"] and ours["ema"]["updates"] == whole["ema"]["updates"] == 6


@pytest.mark.parametrize("trainer", TRAINERS, ids=str)
def test_every_checkpoint_loads_with_weights_only_c22(tmp_path: Path, trainer: Trainer) -> None:
    with signal_at(3):
        assert attempt(trainer, tmp_path) == 42
    for path in (tmp_path / "checkpoints").glob("*.pt"):
        assert torch.load(path, weights_only=True)["format"] == 1


@pytest.mark.parametrize(
    ("trainer", "change", "said"),
    [
        (PLAIN, {"epochs": 4}, "epochs: 2 -> 4"),
        (FULL, {"accumulation": 4}, "accumulation: 2 -> 4"),
        (FULL, {"warmup_steps": 3}, "warmup_steps: 2 -> 3"),
        (PLAIN, {"data": {**PLAIN.config["data"], "records": 24}}, "data.records: 12 -> 24"),
    ],
    ids=str,
)
def test_a_changed_length_of_training_is_refused_c25(
    tmp_path: Path, trainer: Trainer, change: dict[str, Any], said: str
) -> None:
    with signal_at(4):
        assert attempt(trainer, tmp_path) == 42
    before = (tmp_path / "checkpoints" / "last.pt").read_bytes(), (tmp_path / "config_identity.json").read_bytes()
    with pytest.raises(IdentityMismatch, match=re.escape(said)) as refusal:
        attempt(trainer, tmp_path, **change)
    assert refusal.value.exit_code == 44
    after = (tmp_path / "checkpoints" / "last.pt").read_bytes(), (tmp_path / "config_identity.json").read_bytes()
    assert after == before


def test_the_schedule_warms_up_and_ends_at_its_floor() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = WarmupCosine(optimizer, 3, 11, 0.1)
    rates = []
    for _ in range(12):
        rates.append(optimizer.param_groups[0]["lr"] / 2.0)
        schedule.step()
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[11] == pytest.approx(0.1) and schedule.steps == 12


@pytest.mark.parametrize(
    ("trainer", "change", "said"),
    [
        ("entangled", {"width": 9}, "width is 9 and heads is 2"),
        ("entangled", {"lr": "high"}, "lr is 'high'; write a number"),
        (
            "entangled",
            {"data": {"record": 3}},
            "data.record is not a key that this trainer knows; did you mean data.records?",
        ),
        ("entangled", {"hidden": 4}, "hidden is not a key"),
        ("disentangled", {"precision": "fp16"}, "precision is fp16"),
        ("disentangled", {"latent": 0}, "latent is 0; it must be at least 1"),
        ("disentangled", {"observation_std": 0}, "observation_std is 0.0; it must be above 0"),
    ],
)
def test_a_wrong_key_or_value_is_said(tmp_path: Path, trainer: str, change: dict[str, Any], said: str) -> None:
    chosen = next(item for item in TRAINERS if item.name == trainer)
    with pytest.raises(CollectionError, match=re.escape(said)):
        attempt(chosen, tmp_path, **change)

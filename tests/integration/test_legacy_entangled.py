"""Runs of the entangled trainer as it was before Unbroken: adopted where they belong, refused where they do not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures import old_entangled
from tests.integration.trainers_kit import Trainer, attempt
from tests.unit.training_kit import differences, events, quiet_process, signal_at
from unbroken.errors import IdentityMismatch
from unbroken.trainers.entangled.main import main
from unbroken.training.result import weights_sha256

NOW = Trainer("legacy", main, {**old_entangled.CONFIG, "auto_resume": True})
"""An operational key differs from the old run's: that must not keep it from being found."""


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        yield


def last(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "checkpoints" / "last.pt", weights_only=True)


def files(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found.pop("given.yaml", None)
    return found


@pytest.mark.parametrize("stopped", range(1, old_entangled.STEPS))
def test_the_continued_run_equals_the_old_trainers_own(
    tmp_path: Path, stopped: int, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = old_entangled.train(tmp_path / "whole")
    old_entangled.train(tmp_path / "run", stopped)
    assert attempt(NOW, tmp_path / "run") == 0
    ours = last(tmp_path / "run")
    assert differences(dict(whole["model_state_dict"]), dict(ours["states"]["model"])) == []
    assert differences(whole["optimizer_state_dict"]["state"], ours["states"]["optimizer"]["state"]) == []
    rows = [line.split(",") for line in (tmp_path / "run" / "metrics.csv").read_text().splitlines()[1:]]
    assert [float(row[2]) for row in rows] == whole["seen"][stopped:]
    assert ours["order"]["mode"] == "legacy_random_sampler"
    line = f"resumed from checkpoint: global_step={stopped} start_epoch=0 resume_batch_idx={stopped}"
    assert f"{line} train_order_mode=legacy_random_sampler" in capsys.readouterr().out
    assert len(events(tmp_path / "run", "legacy_adopted")) == 1
    identity = json.loads((tmp_path / "run" / "config_identity.json").read_text())
    assert identity["config"]["width"] == 8 and "auto_resume" not in identity["config"]


def test_an_adopted_run_that_is_interrupted_again_at_every_step(tmp_path: Path) -> None:
    whole = old_entangled.train(tmp_path / "whole")
    old_entangled.train(tmp_path / "run", 2)
    for step in (3, 4, 5):
        with signal_at(step):
            assert attempt(NOW, tmp_path / "run", num_workers=2 * (step % 2)) == 42
    assert attempt(NOW, tmp_path / "run") == 0
    assert differences(dict(whole["model_state_dict"]), dict(last(tmp_path / "run")["states"]["model"])) == []
    assert len(events(tmp_path / "run", "legacy_adopted")) == 1
    modes = {event["train_order_mode"] for event in events(tmp_path / "run", "resumed")}
    assert modes == {"legacy_random_sampler"}


def test_without_the_historical_order_it_would_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the order's reconstruction."""
    whole = old_entangled.train(tmp_path / "whole")
    old_entangled.train(tmp_path / "run", 2)
    monkeypatch.setattr("unbroken.training.order.peek_sampler_seed", lambda: 1)
    assert attempt(NOW, tmp_path / "run") == 0
    assert differences(dict(whole["model_state_dict"]), dict(last(tmp_path / "run")["states"]["model"]))


@pytest.mark.parametrize(
    ("change", "said"),
    [({"lr": 0.02}, "lr: 0.01 -> 0.02"), ({"seed": 18}, "seed: 17 -> 18"), ({"epochs": 2}, "epochs: 1 -> 2")],
)
def test_a_mismatch_is_refused_and_nothing_is_written(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    old_entangled.train(tmp_path, 3)
    before = files(tmp_path)
    with pytest.raises(IdentityMismatch, match=said) as refusal:
        attempt(NOW, tmp_path, **change)
    assert refusal.value.exit_code == 44
    assert files(tmp_path) == before


def test_an_old_run_that_had_only_its_result_to_write(tmp_path: Path) -> None:
    """It is evaluated once and completed; its weights stay as they are."""
    whole = old_entangled.train(tmp_path)
    assert attempt(NOW, tmp_path) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["steps"] == old_entangled.STEPS and result["metrics"]["valid_loss"] > 0
    assert result["weights_sha256"] == weights_sha256(whole["model_state_dict"])

"""Starting from given weights: a file known by its hash, or made from a seed; no other architecture is taken."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.trainers_kit import PLAIN, PRETRAINED, Trainer, attempt
from tests.unit.training_kit import differences, outcome, quiet_process, signal_at
from unbroken.errors import CheckpointError, CollectionError, IdentityMismatch
from unbroken.trainers.entangled import make_checkpoint
from unbroken.trainers.entangled.config import read
from unbroken.trainers.entangled.pretrained import make_weights


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        yield


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def starting_from(path: Path, **changes: Any) -> Trainer:
    given = {"checkpoint": str(path), "sha256": digest(path)}
    return Trainer("from_file", PRETRAINED.main, {**PRETRAINED.config, "pretrained": given, **changes})


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """As the documented command makes it."""
    path = tmp_path / "pretrained" / "demo.pt"
    config = PLAIN.write_config(tmp_path / "config")
    make_checkpoint.main(["--config", str(config), "--out", str(path), "--steps", "3", "--seed", "4"])
    return path


def test_the_command_is_reproducible_and_prints_what_to_write(
    tmp_path: Path, demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again.pt"
    config = PLAIN.write_config(tmp_path / "config")
    capsys.readouterr()
    make_checkpoint.main(["--config", str(config), "--out", str(again), "--steps", "3", "--seed", "4"])
    printed = capsys.readouterr().out
    assert printed == f"pretrained:\n  checkpoint: {again}\n  sha256: {digest(again)}\n"
    own, data, _ = read(PLAIN.config)
    weights = torch.load(demo, weights_only=True)["model"]
    assert differences(dict(make_weights(own, data, 3, 4)), dict(weights)) == []
    assert differences(dict(make_weights(own, data, 3, 5)), dict(weights)) != []


def test_a_file_and_the_same_weights_made_here_train_alike(tmp_path: Path, demo: Path) -> None:
    trainer = starting_from(demo)
    with signal_at(2):
        assert attempt(trainer, tmp_path / "file") == 42
    assert attempt(trainer, tmp_path / "file") == 0
    assert attempt(PRETRAINED, tmp_path / "made", pretrained={"steps": 3, "seed": 4}) == 0
    file, made = (outcome(tmp_path / name)["last.pt"]["states"] for name in ("file", "made"))
    assert differences(file, made) == []


def test_the_last_pt_of_another_run_is_a_start(tmp_path: Path) -> None:
    assert attempt(PLAIN, tmp_path / "first") == 0
    trainer = starting_from(tmp_path / "first" / "checkpoints" / "last.pt", lr=0.0, weight_decay=0.0)
    assert attempt(trainer, tmp_path / "second") == 0
    first, second = (outcome(tmp_path / name)["last.pt"]["states"]["model"] for name in ("first", "second"))
    assert differences(first, second) == [], "a learning rate of 0 keeps the weights it started from"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"width": 12}, r"blocks\.0\.attention_in\.weight is \[24, 8\] there and \[36, 12\] here.*\(width\)"),
        ({"layers": 2}, r"blocks\.1\.attention_in\.weight is missing in it.*\(layers\)"),
        ({"data": {**PLAIN.config["data"], "task_size": 3}}, r"token\.weight is \[9, 8\] there and \[27, 8\] here"),
        (
            {"data": {**PLAIN.config["data"], "length": 5}},
            r"position\.weight is \[4, 8\] there and \[5, 8\].*data\.length",
        ),
    ],
)
def test_another_architecture_is_refused_by_key(tmp_path: Path, demo: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as refusal:
        attempt(starting_from(demo, **change), tmp_path / "run")
    assert "\n" not in str(refusal.value)


def test_the_hash_is_part_of_the_identity_and_checked(tmp_path: Path, demo: Path) -> None:
    trainer = starting_from(demo)
    with signal_at(2):
        assert attempt(trainer, tmp_path / "run") == 42
    config = trainer.config["pretrained"]
    other = {**config, "sha256": "0" * 64}
    with pytest.raises(IdentityMismatch, match=r"pretrained\.sha256"):
        attempt(trainer, tmp_path / "run", pretrained=other)
    with pytest.raises(CheckpointError, match="has SHA-256"):
        attempt(trainer, tmp_path / "fresh", pretrained=other)
    with pytest.raises(CheckpointError, match=f"write pretrained.sha256: {config['sha256']}"):
        attempt(trainer, tmp_path / "bare", pretrained={"checkpoint": str(demo)})
    with pytest.raises(CheckpointError, match=r"cannot be read \(No such file"):
        attempt(trainer, tmp_path / "gone", pretrained={**config, "checkpoint": str(tmp_path / "none.pt")})


def test_files_that_are_no_weights(tmp_path: Path) -> None:
    torn, other = tmp_path / "torn.pt", tmp_path / "other.pt"
    torn.write_bytes(b"PK\x03\x04 torn")
    torch.save({"epoch": 3}, other)
    with pytest.raises(CheckpointError, match="is not a checkpoint that torch loads"):
        attempt(starting_from(torn), tmp_path / "a")
    with pytest.raises(CheckpointError, match="holds no model weights"):
        attempt(starting_from(other), tmp_path / "b")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pretrained": None}, "nothing says what from"),
        ({"experiment": "task_size"}, "pretrained is given and experiment is task_size"),
        ({"pretrained": {"checkpoint": "x.pt", "steps": 3}}, "both a checkpoint and steps"),
        ({"pretrained": {"steps": -1}}, "pretrained.steps is -1"),
        ({"experiment": "other"}, "experiment is 'other'; write task_size or pretrained"),
    ],
)
def test_mistakes_in_the_config(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(CollectionError, match=said):
        attempt(PRETRAINED, tmp_path, **change)

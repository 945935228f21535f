"""The collections of the sequence trainers: they load, and their smoke settings train to the end in seconds."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.training_kit import quiet_process
from unbroken.collection import load_collection
from unbroken.collection.yaml_io import dump_yaml
from unbroken.trainers.disentangled.config import read as read_disentangled
from unbroken.trainers.disentangled.main import main as disentangled
from unbroken.trainers.entangled.config import read as read_entangled
from unbroken.trainers.entangled.main import main as entangled
from unbroken.training import preemption

FOLDER = Path(__file__).resolve().parents[2] / "config" / "collections"
COLLECTIONS = {
    "entangled_task_size": (entangled, read_entangled, "data.task_size", ("valid_loss", "valid_loss_ema")),
    "entangled_pretrained": (entangled, read_entangled, "lr", ("valid_loss", "valid_accuracy")),
    "disentangled_beta": (
        disentangled,
        read_disentangled,
        "beta",
        ("valid_elbo", "valid_reconstruction", "valid_kl", "mig"),
    ),
}


@pytest.mark.parametrize("slug", COLLECTIONS)
def test_every_setting_is_a_config_of_its_trainer(slug: str) -> None:
    _, read, key, _ = COLLECTIONS[slug]
    collection = load_collection(FOLDER / f"{slug}.yaml")
    assert len(collection.settings) >= 4
    for setting in collection.settings:
        read({**setting.config, "seed": 0})
        assert f"{key}=" in setting.label


@pytest.mark.slow
@pytest.mark.parametrize("slug", COLLECTIONS)
def test_the_smoke_setting_trains(tmp_path: Path, slug: str) -> None:
    main, _, _, values = COLLECTIONS[slug]
    collection = load_collection(FOLDER / f"{slug}.yaml")
    smoke: Any = next(run for run in collection.runs() if "data.records=512" in run.label)
    config = tmp_path / "given.yaml"
    config.write_text(dump_yaml(smoke.run_config()))
    with quiet_process():
        preemption.FLAG.clear()
        main(["--config", str(config), "--run-dir", str(tmp_path / "run")])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["config_hash"] == smoke.point.config_hash
    assert set(values) <= set(result["metrics"])

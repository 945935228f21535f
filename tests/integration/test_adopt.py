"""`unbroken adopt`: a legacy run directory by hand, through the trainers' own code."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures import old_entangled
from tests.integration.test_legacy_entangled import files
from tests.unit.cli_kit import Cli
from unbroken.collection.operational import OPERATIONAL_KEYS
from unbroken.run_dir.events import read_events
from unbroken.run_dir.status import read_status

CONFIG = {
    key: value
    for key, value in old_entangled.CONFIG.items()
    if key not in OPERATIONAL_KEYS and key not in ("trainer", "data", "seed")
}


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path, capsys)


def old_run(cli: Cli, **changes: Any) -> Path:
    """The collection of today, and a run directory that the old trainer left after two steps."""
    keys = {"trainer": "entangled", "data": old_entangled.CONFIG["data"], "config": {**CONFIG, **changes}}
    (cli.collections / "x.yaml").write_text(yaml.safe_dump({**keys, "seeds": [old_entangled.CONFIG["seed"]]}))
    root = cli.runs()[0].root
    old_entangled.train(root, 2)
    return root


def test_check_shows_and_writes_nothing_then_it_is_adopted_once(cli: Cli) -> None:
    root = old_run(cli)
    before = files(root)
    code, said = cli("adopt", str(root), "--check")
    assert code == 0 and "would write config_identity.json" in said and "at step 2" in said
    assert "train_order_mode: legacy_random_sampler" in said
    assert files(root) == before
    code, said = cli("adopt", "x")
    assert code == 0 and "wrote config_identity.json" in said
    paths = cli.runs()[0]
    assert json.loads(paths.identity.read_text())["seed"] == old_entangled.CONFIG["seed"]
    assert read_status(paths).global_step == 2 and read_status(paths).status == "pending"
    assert [event["event"] for event in read_events(paths)] == ["legacy_adopted"]
    assert paths.last.read_bytes() == before["checkpoints/last.pt"]
    code, said = cli("adopt", "x")
    assert code == 0 and "nothing to adopt" in said


def test_another_config_is_refused_key_by_key(cli: Cli) -> None:
    root = old_run(cli, lr=0.02, width=16)
    before = files(root)
    for option in ([], ["--check"]):
        code, said = cli("adopt", str(root), *option)
        assert code == 44 and "lr: 0.01 -> 0.02" in said and "width: 8 -> 16" in said
        assert files(root) == before


def test_nothing_to_adopt(cli: Cli) -> None:
    root = old_run(cli)
    (root / "checkpoints" / "last.pt").unlink()
    code, said = cli("adopt", str(root))
    assert code == 1 and "holds no checkpoint" in said

"""Files of every earlier version are read, and an interrupted run of theirs goes on. The promise: docs/formats.md."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unbroken.cli.estimate import trained_seconds
from unbroken.collection import load_collection, load_config, load_yaml
from unbroken.collection.identity import config_hash, sanitize, setting_id
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import RunDirectoryError
from unbroken.launch.spec import Spec, SpecError
from unbroken.run_dir.events import EVENTS, read_events
from unbroken.run_dir.holder import Holder
from unbroken.run_dir.lease import holder
from unbroken.run_dir.status import read_status
from unbroken.snapshot import pinned
from unbroken.training.reading import load_payload

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ROOT / "tests" / "fixtures" / "formats"
VERSIONS = sorted(path.name for path in FORMATS.glob("v*"))


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of one version's project."""
    shutil.copytree(FORMATS / request.param, tmp_path / "project")
    return tmp_path / "project"


def run_of(old: Path) -> RunPaths:
    (root,) = (old / "runs" / "old").glob("*/seed_5")
    return RunPaths(root)


def test_there_is_a_folder_for_every_version() -> None:
    assert VERSIONS == ["v1"], "a new version of a format needs a folder: tests/fixtures/formats/make.py"


def test_collection_and_config_give_the_same_paths(old: Path) -> None:
    config = load_config(old / "config.yaml")
    assert config.collections == ("old",)
    (run,) = load_collection(old / "collections" / "old.yaml").runs()
    assert run.paths(old / "runs").root == run_of(old).root


def test_identity_and_run_config(old: Path) -> None:
    paths = run_of(old)
    identity = json.loads(paths.identity.read_text())
    run_config = load_yaml(paths.config)
    assert config_hash(sanitize(run_config)) == identity["config_hash"] == config_hash(identity["config"])
    assert setting_id(identity["config_hash"]) == paths.root.parent.name
    (run,) = load_collection(old / "collections" / "old.yaml").runs()
    assert run.launch_spec()["identity"] == identity


def test_status_events_lease_and_code(old: Path) -> None:
    paths = run_of(old)
    status = read_status(paths)
    assert (status.status, status.exit_code, status.attempt, status.last_signal) == ("preempted", 42, 1, "SIGTERM")
    assert status.global_step > 0
    events = list(read_events(paths))
    assert {event["event"] for event in events} <= EVENTS and events[0]["event"] == "run_started"
    assert events[-1]["event"] == "graceful_shutdown" and trained_seconds(paths)
    assert holder(paths) is None
    lease = Holder.parse((paths.leases / "000001.json").read_bytes())
    assert lease is not None and lease.released and lease.number == 1
    assert json.loads((paths.root / "code.json").read_text())["code"].startswith("git:")


def test_launch_spec_and_snapshot(old: Path) -> None:
    spec = Spec.read(f"@{old / 'spec.json'}")
    assert spec.collection == "old" and spec.seed == 5
    found = pinned.read(old)
    assert found is not None and found.changed == ["train.py"]


def test_checkpoint_and_its_sidecar(old: Path) -> None:
    paths = run_of(old)
    sidecar = json.loads(paths.sidecar(paths.last).read_text())
    with open(paths.last, "rb") as file:
        payload = load_payload(file)
    assert sidecar["bytes"] == paths.last.stat().st_size and sidecar["global_step"] == read_status(paths).global_step
    assert payload["format"] == 1 and {"states", "position", "order", "rng", "config_snapshot"} <= set(payload)


@pytest.mark.slow
def test_an_interrupted_run_of_an_earlier_version_goes_on(old: Path) -> None:
    paths = run_of(old)
    stopped_at = read_status(paths).global_step
    saved_with = json.loads(paths.sidecar(paths.last).read_text())["torch"]
    argv = [sys.executable, "-m", "unbroken.launch", "--run-dir", str(paths.root), "--spec", "@spec.json"]
    done = subprocess.run(argv, cwd=old, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    resumed = [event for event in read_events(paths) if event["event"] == "resumed"]
    assert len(resumed) == 1 and resumed[0]["global_step"] == stopped_at
    steps = [int(line.split(",")[0]) for line in paths.metrics.read_text().splitlines()[1:]]
    assert steps == sorted(set(steps)) and steps[-1] == 256
    assert json.loads(paths.result.read_text())["steps"] == 256
    if saved_with.split("+")[0] == torch.__version__.split("+")[0]:
        alone = RunPaths(old / "alone")
        argv[4] = str(alone.root)
        subprocess.run(argv, cwd=old, capture_output=True, timeout=120, check=True)
        assert alone.result.read_bytes() == paths.result.read_bytes()


def test_keys_of_a_newer_version_are_passed_over_or_refused_by_name(old: Path) -> None:
    paths = run_of(old)
    paths.status.write_text(json.dumps({**json.loads(paths.status.read_text()), "from_the_future": 1}))
    assert read_status(paths).status == "preempted"
    spec = {**json.loads((old / "spec.json").read_text()), "schema_version": 2}
    with pytest.raises(SpecError, match="schema_version 2"):
        Spec.read(json.dumps(spec))
    snapshot = {**json.loads((old / "snapshot.json").read_text()), "schema_version": 2}
    (old / "snapshot.json").write_text(json.dumps(snapshot))
    with pytest.raises(RunDirectoryError):
        pinned.read(old)


def test_the_document_names_every_versioned_file() -> None:
    text = (ROOT / "docs" / "formats.md").read_text()
    for name in ("config_identity.json", "run_status.json", "events.jsonl", "last.pt", "last.json", "result.json"):
        assert f"{name}`" in text
    for name in ("lease/", "code.json", "snapshot.json", "metrics.csv", "config.yaml", "launch spec"):
        assert name in text
    assert set(re.findall(r"fixtures/formats/(v\d+)", text)) == set(VERSIONS)

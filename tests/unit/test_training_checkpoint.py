"""last.pt and previous.pt: killed at every stage, torn, without space, kept and thinned out."""

import errno
import json
import os
import signal
import subprocess
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import CheckpointError
from unbroken.training import checkpoint, payload, space
from unbroken.training.checkpoint import STAGES, CheckpointStore
from unbroken.training.retention import Retention


def store_in(folder: Path, **retention: int) -> CheckpointStore:
    return CheckpointStore(RunPaths(folder), Retention(**retention))


def save(store: CheckpointStore, step: int, **note: Any) -> None:
    store.save({"format": 1, "step": step, "weights": torch.full((1000,), float(step))}, {"global_step": step, **note})


def newest(folder: Path) -> int:
    """Find, check and settle, as a session does."""
    store = store_in(folder)
    found = store.find()
    assert found is not None
    assert torch.equal(found.payload["weights"], torch.full((1000,), float(found.payload["step"])))
    store.settle(found)
    return int(found.payload["step"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_a_pair_with_sidecars(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert store.find() is None and not store.exists()
    for step in (1, 2, 3):
        save(store, step, epoch=0, batch=step)
    assert names(tmp_path) == ["last.json", "last.pt", "previous.json", "previous.pt"]
    for name, step in (("last", 3), ("previous", 2)):
        sidecar = json.loads((tmp_path / "checkpoints" / f"{name}.json").read_text())
        content = (tmp_path / "checkpoints" / f"{name}.pt").read_bytes()
        assert (sidecar["global_step"], sidecar["batch"], sidecar["bytes"]) == (step, step, len(content))
        assert torch.load(tmp_path / "checkpoints" / f"{name}.pt", weights_only=True)["step"] == step


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("stage", STAGES)
def test_kill_9_at_every_stage_of_a_save(
    tmp_path: Path, stage: str, links: bool, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Always loadable, never older than the save before, nothing rejected; a left-over never blocks the next save."""
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    if stage == "previous linked" and (not links or before == 0):
        stage = "previous replaced"
    if stage.startswith("previous") and before == 0:
        stage = "last replaced"
    for step in range(1, before + 1):
        save(store_in(tmp_path), step)
    child = os.fork()
    if child == 0:
        checkpoint._stage = lambda now: os.kill(os.getpid(), signal.SIGKILL) if now == stage else None
        save(store_in(tmp_path), before + 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    done = STAGES.index(stage) >= STAGES.index("last replaced")
    if before or done:
        assert newest(tmp_path) == before + (1 if done else 0)
        assert not any("rejected" in name for name in names(tmp_path))
    else:
        assert store_in(tmp_path).find() is None
    save(store_in(tmp_path), before + 2)
    assert newest(tmp_path) == before + 2
    assert names(tmp_path)[:2] == ["last.json", "last.pt"]
    assert not any(name.endswith(".new") for name in names(tmp_path))


def _no_links(*_: Any, **__: Any) -> None:
    raise OSError(errno.EPERM, "no hard links here")


def _zero(path: Path) -> None:
    path.write_bytes(b"")


def _torn(path: Path) -> None:
    _replace(path, path.read_bytes()[:700])


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    _replace(path, bytes(content))


def _replace(path: Path, content: bytes) -> None:
    """previous.pt may be another name of the same file: never write into it."""
    path.unlink()
    path.write_bytes(content)


def _a_pickle_that_runs_code(path: Path) -> None:
    import hashlib
    import pickle

    content = pickle.dumps(print)
    _replace(path, content)
    path.with_suffix(".json").unlink()
    path.with_suffix(".json").write_text(json.dumps({"sha256": hashlib.sha256(content).hexdigest()}))


@pytest.mark.parametrize("damage", [_zero, _torn, _flipped, _a_pickle_that_runs_code])
def test_a_bad_last_is_set_aside_and_previous_used_c14(tmp_path: Path, damage: Any) -> None:
    for step in (1, 2):
        save(store_in(tmp_path), step)
    last = RunPaths(tmp_path).last
    damage(last)
    bad = last.read_bytes()
    store = store_in(tmp_path)
    found = store.find()
    assert found is not None and found.payload["step"] == 1
    assert names(tmp_path) == ["last.json", "last.pt", "previous.json", "previous.pt"], "find changes nothing"
    [(old, new, why)] = store.settle(found)
    assert (old, new.name) == (last, "last.rejected-1.pt") and why
    assert new.read_bytes() == bad
    save(store, 3)
    assert newest(tmp_path) == 3
    damage(RunPaths(tmp_path).last)
    assert newest(tmp_path) == 1
    assert {"last.rejected-1.pt", "last.rejected-2.pt"} <= set(names(tmp_path))


def test_both_bad_is_an_error_that_changes_nothing(tmp_path: Path) -> None:
    for step in (1, 2):
        save(store_in(tmp_path), step)
    _torn(RunPaths(tmp_path).last)
    _torn(RunPaths(tmp_path).previous)
    before = names(tmp_path)
    for _ in range(2):
        with pytest.raises(CheckpointError, match="none of the checkpoints"):
            store_in(tmp_path).find()
    assert names(tmp_path) == before


@pytest.mark.parametrize("sidecar", ["missing", "not JSON", "of the save before"])
def test_a_sidecar_that_does_not_help(tmp_path: Path, sidecar: str) -> None:
    for step in (1, 2):
        save(store_in(tmp_path), step)
    note = RunPaths.sidecar(RunPaths(tmp_path).last)
    if sidecar == "missing":
        note.unlink()
        assert newest(tmp_path) == 2
        return
    note.write_text("{" if sidecar == "not JSON" else RunPaths.sidecar(RunPaths(tmp_path).previous).read_text())
    assert newest(tmp_path) == 1


def test_left_overs_of_other_processes_never_block(tmp_path: Path) -> None:
    save(store_in(tmp_path), 1)
    for name in ("last.pt.new", "last.json.new", "previous.pt.new", "previous.json.new", ".last.pt.99.tmp"):
        (tmp_path / "checkpoints" / name).write_bytes(b"half")
    assert newest(tmp_path) == 1
    save(store_in(tmp_path), 2)
    assert newest(tmp_path) == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("where", ["payload written", "sidecar written", "previous replaced", "last replaced"])
def test_no_space_or_quota_at_payload_sidecar_and_renames_c15(
    tmp_path: Path, number: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_in(tmp_path)
    for step in (1, 2):
        save(store, step)

    def full(now: str) -> None:
        if now == where:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(checkpoint, "_stage", full)
    with pytest.raises(CheckpointError, match=r"no space|quota") as caught:
        save(store, 3)
    assert caught.value.exit_code == 1
    monkeypatch.setattr(checkpoint, "_stage", lambda now: None)
    assert newest(tmp_path) == (3 if where == "last replaced" else 2)
    assert not any("rejected" in name for name in names(tmp_path))
    save(store, 4)
    assert newest(tmp_path) == 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A real file system of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this user may not mount a tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_really_full_c15(small_disk: Path) -> None:
    store = store_in(small_disk)
    for step in (1, 2):
        save(store, step)
    before = {name: (small_disk / "checkpoints" / name).read_bytes() for name in names(small_disk)}
    with pytest.raises(CheckpointError, match="no space"):
        store.save({"format": 1, "weights": torch.zeros(100_000)}, {"global_step": 3})
    assert {name: (small_disk / "checkpoints" / name).read_bytes() for name in names(small_disk)} == before
    filler = small_disk / "filler"
    with pytest.raises(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    for _ in range(2):
        with pytest.raises(CheckpointError, match="no space"):
            save(store, 3)
        assert newest(small_disk) == 2
    filler.unlink()
    save(store, 3)
    assert newest(small_disk) == 3


def test_no_room_is_noticed_before_the_training_c16(small_disk: Path) -> None:
    space.require_space(small_disk / "checkpoints", 50_000, 3)
    with pytest.raises(CheckpointError, match=r"free and the checkpoints of this run need 300.0 kB \(300000 bytes"):
        space.require_space(small_disk / "checkpoints", 100_000, 3)
    assert names(small_disk) == []


def test_room_that_the_disk_shows_but_does_not_give_c16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "_reserve", lambda path, size: errno.EDQUOT)
    with pytest.raises(CheckpointError, match="quota"):
        space.require_space(tmp_path, 1000, 3)


def test_the_size_is_known_before_the_first_step(tmp_path: Path) -> None:
    model = torch.nn.Linear(300, 300)
    for kind, options in ((torch.optim.Adam, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.SGD, {})):
        optimizer = kind(model.parameters(), lr=0.1, **options)
        expected = payload.size_of({"m": model.state_dict(), "o": optimizer.state_dict()})
        expected += payload.optimizer_bytes_to_come(optimizer)
        model(torch.zeros(1, 300)).sum().backward()
        optimizer.step()
        assert payload.optimizer_bytes_to_come(optimizer) == 0
        torch.save({"m": model.state_dict(), "o": optimizer.state_dict()}, tmp_path / "x.pt")
        assert (tmp_path / "x.pt").stat().st_size <= expected <= (tmp_path / "x.pt").stat().st_size + 100_000


def test_retention_never_touches_the_pair(tmp_path: Path) -> None:
    store = store_in(tmp_path, keep_last=3, keep_every=10, keep_best=1)
    metrics = {7: 0.1}
    for step in range(1, 26):
        save(store, step, metric=metrics.get(step, 1.0))
    kept = [int(name[5:-3]) for name in names(tmp_path) if name.startswith("step_") and name.endswith(".pt")]
    assert kept == [7, 10, 20, 23, 24, 25]
    assert newest(tmp_path) == 25
    for path in (RunPaths(tmp_path).last, RunPaths(tmp_path).previous, tmp_path / "checkpoints/step_000000000025.pt"):
        _torn(path)
    assert newest(tmp_path) == 24, "a kept checkpoint is the last resort"


def test_keep_last_one_still_keeps_the_pair(tmp_path: Path) -> None:
    store = store_in(tmp_path, keep_last=1)
    for step in (1, 2, 3):
        save(store, step)
    assert names(tmp_path) == ["last.json", "last.pt", "previous.json", "previous.pt"]


def test_only_what_loads_again_is_saved_c22(tmp_path: Path) -> None:
    mixed = payload.plain(
        {
            "n": np.float64(1.5),
            "a": np.arange(3),
            "o": OrderedDict(x=np.int32(2)),
            "t": (1, "a", None),
            "d": torch.float16,
        }
    )
    store_in(tmp_path).save({"format": 1, **mixed}, {"global_step": 1})
    back = torch.load(RunPaths(tmp_path).last, weights_only=True)
    assert (back["n"], back["a"].tolist(), back["o"]["x"], back["t"]) == (1.5, [0, 1, 2], 2, (1, "a", None))
    with pytest.raises(CheckpointError, match=r"states\.sampler\.hook is a .*function"):
        payload.plain({"sampler": {"hook": lambda: None}}, "states")


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    store_in(tmp_path).save({"format": 99}, {"global_step": 1})
    with pytest.raises(CheckpointError, match="newer Unbroken"):
        store_in(tmp_path).find()

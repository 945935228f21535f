"""Saves behind the training are as safe as synchronous ones: killed, failing, overtaken by a signal or an end."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from training_kit import (
    CONFIG,
    STEPS,
    Toy,
    differences,
    events,
    outcome,
    quiet_process,
    run_to_the_end,
    run_toy,
    signal_at,
    status,
)  # fmt: skip

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import CheckpointError
from unbroken.training import async_store, checkpoint, saving, writing
from unbroken.training.async_store import AsyncStore, Buffers
from unbroken.training.checkpoint import STAGES, CheckpointStore
from unbroken.training.session import Session

EACH_STEP = {**CONFIG, "checkpoint_interval": 1}
INSIDE = ("inside the payload", "before the end of the payload")
"""Places within the writing of the file, beside the stages around it."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with quiet_process():
        yield


def payload(step: int) -> dict[str, Any]:
    return {"format": 1, "step": step, "weights": torch.full((3_000_000,), float(step))}


def begin(store: AsyncStore, step: int) -> None:
    store.begin(payload(step), {"global_step": step})


def newest(folder: Path) -> int:
    store = CheckpointStore(RunPaths(folder))
    found = store.find()
    assert found is not None and not found.passed_over
    assert torch.equal(found.payload["weights"], payload(found.payload["step"])["weights"])
    store.settle(found)
    return int(found.payload["step"])


def at_place(place: str, act: Callable[[], None]) -> None:
    """Call ``act`` where a save reaches a stage, or a place inside the payload; for this process only."""
    if place in STAGES:
        checkpoint._stage = lambda now: act() if now == place else None
        return
    name = "_hand_over" if place == INSIDE[0] else "finish"
    real = getattr(writing.HashedFile, name)

    def acting(self: Any, *arguments: Any) -> None:
        act()
        real(self, *arguments)

    setattr(writing.HashedFile, name, acting)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(action: Callable[[], None]) -> int:
    """The exit code of a forked child that does this."""
    child = os.fork()
    if child == 0:
        try:
            action()
        except BaseException as error:
            os._exit(getattr(error, "code", 99) or 0)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_copy_has_the_bits_and_stays_as_it_was() -> None:
    base = torch.arange(12, dtype=torch.float32)
    content: dict[str, Any] = {
        "one": base, "part": base[2:6], "turned": base.reshape(3, 4).T, "half": base.to(torch.bfloat16),
        "weight": torch.nn.Parameter(torch.ones(3)), "none": torch.empty(0, 5), "number": torch.tensor(7),
        "sparse": torch.eye(3).to_sparse(), "conj": torch.view_as_complex(torch.ones(2, 2)).conj(),
        "nested": OrderedDict(a=[base, (1, "x")], b={2.5: None}),
    }  # fmt: skip
    buffers = Buffers()
    for _ in range(3):
        copied = buffers.copy(content)
        assert list(copied) == list(content) and type(copied["nested"]) is OrderedDict
        for name in ("one", "part", "turned", "half", "weight", "none", "number", "conj"):
            assert torch.equal(copied[name], content[name]) and copied[name].stride() == content[name].stride()
        assert torch.equal(copied["sparse"].to_dense(), torch.eye(3))
        assert copied["part"].untyped_storage().data_ptr() == copied["one"].untyped_storage().data_ptr()
        assert copied["nested"]["a"][0].data_ptr() == copied["one"].data_ptr() != base.data_ptr()
        assert isinstance(copied["weight"], torch.nn.Parameter)
        before = copied["one"].clone()
        base += 1
        assert torch.equal(copied["one"], before)
    assert len(buffers._kept) == 4  # base, half, weight, number: reused from copy to copy


def test_a_background_save_is_the_file_of_a_synchronous_one(tmp_path: Path) -> None:
    one, other = AsyncStore(RunPaths(tmp_path / "a")), CheckpointStore(RunPaths(tmp_path / "b"))
    begin(one, 1)
    one.flush()
    other.save(payload(1), {"global_step": 1})
    assert one.paths.last.read_bytes() == other.paths.last.read_bytes()
    assert torch.load(one.paths.last, weights_only=True, mmap=True)["step"] == 1


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("place", [*STAGES, *INSIDE])
def test_kill_9_at_every_stage_of_a_background_save(tmp_path: Path, place: str, before: int) -> None:
    if place.startswith("previous") and before == 0:
        place = "last replaced"

    def attempt() -> None:
        store = AsyncStore(RunPaths(tmp_path))
        for step in range(1, before + 1):
            begin(store, step)
        store.flush()
        at_place(place, kill)
        begin(store, before + 1)
        store.flush()

    assert in_child(attempt) == -signal.SIGKILL
    done = place in STAGES and STAGES.index(place) >= STAGES.index("last replaced")
    if before or done:
        assert newest(tmp_path) == before + done
    else:
        assert CheckpointStore(RunPaths(tmp_path)).find() is None
    store = AsyncStore(RunPaths(tmp_path))
    begin(store, before + 2)
    store.flush()
    assert newest(tmp_path) == before + 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("place", ["payload", *INSIDE, "sidecar written", "previous replaced"])
def test_a_full_disk_in_the_background_is_raised_at_the_next_call(tmp_path: Path, place: str, number: int) -> None:
    real = checkpoint._stage, writing.HashedFile._hand_over, writing.HashedFile.finish
    store = AsyncStore(RunPaths(tmp_path))
    for step in (1, 2):
        begin(store, step)
    store.flush()

    def full() -> None:
        raise OSError(number, os.strerror(number))

    try:
        at_place(place, full)
        begin(store, 3)
        deadline = time.monotonic() + 120
        while not store.broken and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.broken and store.ended
        with pytest.raises(CheckpointError, match=r"no space|quota"):
            begin(store, 4)
        assert not store.broken
    finally:
        checkpoint._stage, writing.HashedFile._hand_over, writing.HashedFile.finish = real
    assert newest(tmp_path) == 2
    begin(store, 5)
    store.flush()
    assert newest(tmp_path) == 5


def test_a_later_synchronous_save_makes_a_failed_one_moot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = AsyncStore(RunPaths(tmp_path))
    monkeypatch.setattr(checkpoint, "_stage", lambda now: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    begin(store, 1)
    assert store._write is not None
    store._write.join()
    monkeypatch.setattr(checkpoint, "_stage", lambda now: None)
    store.save(payload(2), {"global_step": 2})
    store.flush()
    assert newest(tmp_path) == 2


def test_a_process_that_ends_by_itself_finishes_the_save(tmp_path: Path) -> None:
    program = (
        "import torch; from pathlib import Path; from unbroken.collection.run_dir import RunPaths;"
        "from unbroken.training.async_store import AsyncStore;"
        f"AsyncStore(RunPaths(Path({str(tmp_path)!r}))).begin("
        "{'format': 1, 'step': 1, 'weights': torch.full((3_000_000,), 1.0)}, {'global_step': 1}); raise SystemExit(3)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 3
    assert newest(tmp_path) == 1


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Background writes wait for this event; synchronous ones do not."""
    go, real = threading.Event(), writing.HashedFile.finish

    def finish(self: Any) -> None:
        if threading.current_thread().name == "checkpoint-write":
            go.wait(20)
        real(self)

    monkeypatch.setattr(writing.HashedFile, "finish", finish)
    return go


def test_a_signal_during_a_background_write_saves_the_step_it_came_in(tmp_path: Path, slow: threading.Event) -> None:
    config = {**CONFIG, "checkpoint_interval": 4}  # saves behind at 3 (epoch), 4
    real = Session.commit

    def commit(self: Session, *values: Any, **named: Any) -> None:
        if self.global_step == 4:
            assert self.store._write is not None and self.store._write.is_alive()  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Timer(0.3, slow.set).start()
        if self.global_step == 3:
            slow.set()
            self.flush()
            slow.clear()
        real(self, *values, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "commit", commit)
        assert run_toy(tmp_path / "a", config) == 42
    [shutdown] = events(tmp_path / "a", "graceful_shutdown")
    assert (shutdown["global_step"], shutdown["saved"]) == (5, True)
    paths = RunPaths(tmp_path / "a")
    assert torch.load(paths.last, weights_only=True)["position"]["global_step"] == 5
    assert torch.load(paths.previous, weights_only=True)["position"]["global_step"] == 4
    run_to_the_end(tmp_path / "a", config)
    run_to_the_end(tmp_path / "b", {**config, "async_saves": False})
    assert differences(outcome(tmp_path / "a"), outcome(tmp_path / "b")) == []


def test_a_full_disk_behind_the_training_ends_the_attempt_clearly(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    real = checkpoint._stage
    saves: list[str] = []

    def full(now: str) -> None:
        saves.append(now) if now == "start" else None
        if len(saves) >= 3 and now == "payload":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    checkpoint._stage = full
    try:
        with pytest.raises(CheckpointError, match="no space") as caught:
            run_toy(folder, EACH_STEP)
    finally:
        checkpoint._stage = real
    assert caught.value.exit_code == 1
    assert status(folder)["status"] == "failed" and "no space" in status(folder)["reason"]
    assert [event["global_step"] for event in events(folder, "checkpoint_saved")] == [1, 2]
    assert torch.load(RunPaths(folder).last, weights_only=True)["position"]["global_step"] == 2
    run_to_the_end(folder, EACH_STEP)
    run_to_the_end(tmp_path / "b", {**CONFIG, "async_saves": False})
    assert differences(outcome(folder), outcome(tmp_path / "b")) == []


def test_a_crash_does_not_lose_the_save_that_is_being_written(tmp_path: Path, slow: threading.Event) -> None:
    class Crashing(Toy):
        def loss(self, parts: Any, batch: Any, step: int) -> Any:
            if step == 2:
                threading.Timer(0.3, slow.set).start()
                raise RuntimeError("loss is nan")
            return super().loss(parts, batch, step)

    with pytest.raises(RuntimeError, match="nan"):
        run_toy(tmp_path, CONFIG, Crashing(3))
    assert torch.load(RunPaths(tmp_path).last, weights_only=True)["position"]["global_step"] == 2
    assert [event["global_step"] for event in events(tmp_path, "checkpoint_saved")] == [2]


@pytest.mark.parametrize("place", [*STAGES, INSIDE[1]])
@pytest.mark.parametrize("nth", [1, 2, 4])
def test_a_run_killed_in_a_background_save_ends_in_the_same_bits(tmp_path: Path, place: str, nth: int) -> None:
    if place.startswith("previous") and nth == 1:
        place = "last replaced"
    count = [0]

    def at_nth() -> None:
        count[0] += 1
        if count[0] == nth:
            kill()

    def attempt() -> None:
        at_place(place, at_nth)
        raise SystemExit(run_toy(tmp_path / "a", EACH_STEP))

    assert in_child(attempt) == -signal.SIGKILL
    found = CheckpointStore(RunPaths(tmp_path / "a")).find()
    assert found is None or not found.passed_over
    run_to_the_end(tmp_path / "a", EACH_STEP)
    whole = _whole(tmp_path)
    assert differences(outcome(tmp_path / "a"), outcome(whole)) == []
    resumed = [event["global_step"] for event in events(tmp_path / "a", "resumed")]
    assert resumed == ([found.payload["position"]["global_step"]] if found else [])


def _whole(folder: Path) -> Path:
    run_to_the_end(folder / "whole", {**CONFIG, "async_saves": False})
    return folder / "whole"


@pytest.mark.parametrize("step", range(STEPS + 1))
def test_a_run_stopped_at_any_step_ends_in_the_same_bits(tmp_path: Path, step: int) -> None:
    with signal_at(step):
        run_toy(tmp_path / "a", EACH_STEP)
    run_to_the_end(tmp_path / "a", EACH_STEP)
    assert differences(outcome(tmp_path / "a"), outcome(_whole(tmp_path))) == []


def test_without_memory_for_a_copy_saves_are_synchronous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saving, "free_memory", lambda: 10_000)
    monkeypatch.setattr(async_store.AsyncStore, "begin", lambda *_: pytest.fail("begun"))
    assert run_toy(tmp_path) == 0
    assert "async_saves is off" in capfd.readouterr().out

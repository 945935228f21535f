"""Position, identity, legacy runs, metrics.csv, world size: what a resume checks and computes."""

import errno
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from training_kit import (
    CONFIG,
    Toy,
    differences,
    events,
    outcome,
    quiet_process,
    run_toy,
    signal_at,
    status,
)

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import CheckpointError, IdentityMismatch, LeaseHeld, RunDirectoryError
from unbroken.run_dir.lease import acquire
from unbroken.training import checkpoint, order, preemption, rng, space
from unbroken.training.metrics import MetricsFile
from unbroken.training.parts import Parts
from unbroken.training.position import Plan
from unbroken.training.session import Session


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        yield


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("records", [12, 13, 24, 31])
def test_position_arithmetic(records: int, accumulation: int, drop_last: bool) -> None:
    plan = Plan(records, 4, 3, accumulation, drop_last=drop_last)
    walked = [(epoch, index) for epoch in range(3) for index in range(plan.per_epoch)]
    assert [plan.position(step) for step in range(plan.total_steps)] == walked
    assert plan.position(plan.total_steps) == (3, 0)
    for index in range(plan.per_epoch):
        first, end = plan.group(index)
        micro = list(plan.micro_batches(index))
        assert len(micro) == accumulation
        assert [i for a, b in micro for i in range(a, b)] == list(range(first, end))
    covered = sum(end - first for first, end in map(plan.group, range(plan.per_epoch)))
    assert covered == (records // plan.effective_batch * plan.effective_batch if drop_last else records)


def test_position_over_several_processes() -> None:
    plan = Plan(50, 4, world_size=3, accumulation=2)
    turns = [(index, rank) for index in range(plan.per_epoch) for rank in range(3)]
    places = [i for index, rank in turns for a, b in plan.micro_batches(index, rank) for i in range(a, b)]
    assert sorted(places) == list(range(50))


def test_position_beyond_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="global_step 4"):
        Plan(12, 4).position(4)
    with pytest.raises(ValueError, match="do not fill"):
        Plan(3, 4, drop_last=True)


def test_the_order_is_a_permutation_of_seed_and_epoch() -> None:
    assert torch.equal(order.epoch_order(5, 2, 100), order.epoch_order(5, 2, 100))
    assert torch.equal(order.epoch_order(5, 2, 100), order.epoch_order(4, 3, 100))
    assert sorted(order.epoch_order(5, 2, 100).tolist()) == list(range(100))
    before = torch.get_rng_state()
    order.epoch_order(1, 1, 10)
    assert torch.equal(before, torch.get_rng_state())
    assert len({order.record_seed(s, e, r) for s in range(5) for e in range(5) for r in range(40)}) == 1000


def test_the_legacy_order_is_what_the_data_loader_drew() -> None:
    data = TensorDataset(torch.arange(37))
    torch.manual_seed(9)
    torch.randn(5)
    real = [int(i) for (batch,) in DataLoader(data, batch_size=4, shuffle=True) for i in batch]
    second = [int(i) for (batch,) in DataLoader(data, batch_size=4, shuffle=True) for i in batch]
    torch.manual_seed(9)
    torch.randn(5)
    assert order.sampler_order(order.peek_sampler_seed(), 37).tolist() == real
    assert order.sampler_order(order.draw_sampler_seed(), 37).tolist() == real
    assert order.sampler_order(order.draw_sampler_seed(), 37).tolist() == second


def test_random_states_come_back_through_weights_only_c22(tmp_path: Path) -> None:
    rng.seed_all(4)
    random.gauss(0, 1)
    np.random.normal()
    torch.save(rng.capture(), tmp_path / "rng.pt")
    drawn = [torch.rand(3).tolist(), np.random.normal(size=3).tolist(), [random.gauss(0, 1) for _ in range(3)]]
    rng.restore(torch.load(tmp_path / "rng.pt", weights_only=True))
    assert [torch.rand(3).tolist(), np.random.normal(size=3).tolist(), [random.gauss(0, 1) for _ in range(3)]] == drawn


def test_another_setting_is_refused_key_by_key_and_nothing_is_written(tmp_path: Path) -> None:
    with signal_at(2):
        assert run_toy(tmp_path, {**CONFIG, "data": {"a": 1}}) == 42
    before = files(tmp_path)
    for change, shown in (
        ({"data": {"a": 2}}, r"  data\.a: 1 -> 2"),
        ({"data": {"a": 1}, "seed": 4}, "  seed: 3 -> 4"),
        ({"data": {"a": 1}, "new": "x"}, r'  new: \(absent\) -> "x"'),
        ({"data": {"a": 1}, "epochs": 7}, "  epochs: 2 -> 7"),  # C25: no silent reuse of the decayed schedule
    ):
        with pytest.raises(IdentityMismatch, match=shown) as caught:
            run_toy(tmp_path, {**CONFIG, **change})
        assert caught.value.exit_code == 44
        assert "Ways out" in str(caught.value)
        assert files(tmp_path) == before
    assert run_toy(tmp_path, {**CONFIG, "data": {"a": 1.0}, "log_every": 3, "keep_last": 3}) == 0


def test_a_checkpoint_copied_from_another_run_is_refused(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 5)):
        with signal_at(2):
            assert run_toy(tmp_path / name, {**CONFIG, "seed": seed}) == 42
    for name in ("last.pt", "last.json"):
        (tmp_path / "two/checkpoints" / name).write_bytes((tmp_path / "one/checkpoints" / name).read_bytes())
    with pytest.raises(IdentityMismatch, match="seed: 3 -> 5"):
        run_toy(tmp_path / "two", {**CONFIG, "seed": 5})


def test_other_data_is_refused(tmp_path: Path) -> None:
    task = Toy(3)
    task.fingerprint = "aa"
    with signal_at(2):
        assert run_toy(tmp_path, task=task) == 42
    other = Toy(3)
    other.fingerprint = "bb"
    before = RunPaths(tmp_path).last.read_bytes()
    with pytest.raises(IdentityMismatch, match=r'data \(SHA-256\): "aa" -> "bb"'):
        run_toy(tmp_path, task=other)
    assert RunPaths(tmp_path).last.read_bytes() == before


def test_auto_resume_looks_at_no_other_directory(tmp_path: Path) -> None:
    with signal_at(4):
        assert run_toy(tmp_path / "seed_3") == 42
    (tmp_path / "seed_3_old").mkdir()
    task = Toy(3)
    assert run_toy(tmp_path / "seed_3_old", task=task) == 0
    assert task.seen[0][0] == 0


def test_without_auto_resume_the_old_checkpoints_are_kept_aside(tmp_path: Path) -> None:
    with signal_at(4):
        assert run_toy(tmp_path) == 42
    old = RunPaths(tmp_path).last.read_bytes()
    task = Toy(3)
    assert run_toy(tmp_path, task=task, auto_resume=False) == 0
    assert task.seen[0][0] == 0
    assert (tmp_path / "checkpoints.before-1" / "last.pt").read_bytes() == old
    assert run_toy(tmp_path / "undisturbed") == 0
    assert differences(outcome(tmp_path / "undisturbed"), outcome(tmp_path)) == []


def test_resume_from_a_path(tmp_path: Path) -> None:
    with signal_at(4):
        assert run_toy(tmp_path / "a") == 42
    assert run_toy(tmp_path / "b", resume_from=tmp_path / "a/checkpoints/last.pt") == 0
    assert run_toy(tmp_path / "c") == 0
    one, other = outcome(tmp_path / "b"), outcome(tmp_path / "c")
    assert one["result"] == other["result"]
    assert differences(one["last.pt"]["states"], other["last.pt"]["states"]) == []
    with pytest.raises(CheckpointError, match="there is no such file"):
        run_toy(tmp_path / "d", resume_from=tmp_path / "missing.pt")
    assert not (tmp_path / "d").exists()


def test_the_log_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with signal_at(4):
        assert run_toy(tmp_path) == 42
    capsys.readouterr()
    assert run_toy(tmp_path) == 0
    line = "resumed from checkpoint: global_step=4 start_epoch=1 resume_batch_idx=1 train_order_mode=epoch_seeded"
    assert line in capsys.readouterr().out
    [event] = events(tmp_path, "resumed")
    assert (event["global_step"], event["start_epoch"], event["resume_batch_idx"]) == (4, 1, 1)


@pytest.mark.parametrize("kill_at", range(1, 7))
def test_sigkill_costs_at_most_one_interval_and_no_step_stands_twice(
    tmp_path: Path, kill_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dies(Toy):
        def loss(self, parts: Parts, batch: Any, step: int) -> Any:
            if step == kill_at - 1:
                raise KeyboardInterrupt
            return super().loss(parts, batch, step)

    with pytest.raises(KeyboardInterrupt):
        run_toy(tmp_path, task=Dies(3))
    with open(RunPaths(tmp_path).metrics, "ab") as file:
        file.write(f"{kill_at},0,0.05,torn".encode())
    task = Toy(3)
    assert run_toy(tmp_path, task=task) == 0
    first = task.seen[0][0]
    assert kill_at - 1 - CONFIG["checkpoint_interval"] <= first <= kill_at - 1
    assert run_toy(tmp_path / "whole") == 0
    assert differences(outcome(tmp_path / "whole"), outcome(tmp_path)) == []


def test_a_bad_last_pt_is_reported_and_previous_goes_on_c14(tmp_path: Path) -> None:
    with signal_at(5):
        assert run_toy(tmp_path) == 42
    RunPaths(tmp_path).last.unlink()
    RunPaths(tmp_path).last.write_bytes(b"")
    task = Toy(3)
    assert run_toy(tmp_path, task=task) == 0
    assert task.seen[0][0] == 4
    [event] = events(tmp_path, "checkpoint_rejected")
    assert (event["file"], event["kept_as"]) == ("last.pt", "last.rejected-1.pt")
    assert (tmp_path / "checkpoints/last.rejected-1.pt").exists()
    assert run_toy(tmp_path / "whole") == 0
    assert differences(outcome(tmp_path / "whole"), outcome(tmp_path)) == []


@pytest.mark.parametrize("stop", ["interval", "signal"])
def test_a_full_disk_ends_with_1_and_the_next_attempt_goes_on_c15(
    tmp_path: Path, stop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = []

    def full(stage: str) -> None:
        saves.append(stage) if stage == "start" else None
        if stage == "payload written" and len(saves) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "_stage", full)
    with pytest.raises(CheckpointError, match="no space") as caught:
        if stop == "signal":
            with signal_at(3):
                run_toy(tmp_path)
        else:
            run_toy(tmp_path)
    assert caught.value.exit_code == 1
    assert events(tmp_path, "graceful_shutdown") == []
    assert status(tmp_path)["status"] == "failed"
    monkeypatch.setattr(checkpoint, "_stage", lambda stage: None)
    assert run_toy(tmp_path) == 0
    assert run_toy(tmp_path / "whole") == 0
    assert differences(outcome(tmp_path / "whole"), outcome(tmp_path)) == []


def test_no_room_is_found_out_at_the_start_c16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda folder: 1000)
    task = Toy(3)
    with pytest.raises(CheckpointError, match=r"1.0 kB \(1000 bytes\) free"):
        run_toy(tmp_path, task=task)
    assert task.seen == []


def test_another_world_size_is_refused_or_marked_c23(tmp_path: Path) -> None:
    with signal_at(2):
        assert run_toy(tmp_path) == 42
    paths = RunPaths(tmp_path)
    payload = torch.load(paths.last, weights_only=True)
    payload["environment"]["world_size"] = 2
    payload["rng"] *= 2
    checkpoint.CheckpointStore(paths).save(payload, {"global_step": 2})
    before = paths.last.read_bytes()
    with pytest.raises(IdentityMismatch, match="world_size: 2 -> 1"):
        run_toy(tmp_path)
    assert paths.last.read_bytes() == before
    assert run_toy(tmp_path, allow_world_size_change=True) == 0
    assert status(tmp_path)["exact"] is False


def test_two_trainers_by_hand(tmp_path: Path) -> None:
    lease = acquire(RunPaths(tmp_path))
    with pytest.raises(LeaseHeld):
        run_toy(tmp_path)
    lease.release()
    assert run_toy(tmp_path) == 0


def test_a_launcher_owns_the_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNBROKEN_ATTEMPT", "7")
    with signal_at(2):
        assert run_toy(tmp_path) == 42
    now = status(tmp_path)
    assert (now["status"], now["resubmit_count"], now["attempt"]) == ("pending", 0, 0)
    assert (now["global_step"], now["total_steps"], now["last_signal"]) == (2, 6, "SIGTERM")
    assert [event["attempt"] for event in events(tmp_path, "graceful_shutdown")] == [7]
    assert events(tmp_path, "run_started") == []


def test_changed_columns_are_refused(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv", ("a",))
    file.open(0, None)
    file.row({"step": 1, "loss": 0.1, "a": None})
    file.close()
    with pytest.raises(RunDirectoryError, match="other columns"):
        MetricsFile(tmp_path / "metrics.csv", ("b",)).open(1, None)
    again = MetricsFile(tmp_path / "metrics.csv", ("a",))
    again.open(1, None)
    again.close()
    assert (tmp_path / "metrics.csv").read_text() == "step,epoch,lr,loss,a\n1,,,0.1,\n"


OLD = {"batch_size": 5, "lr": 0.05, "epochs": 1, "seed": 21, "log_every": 1, "auto_resume": True}


class OldData:
    """What the old trainer and its successor train: one long epoch, dropout, momentum."""

    x = torch.randn(43, 3, generator=torch.Generator().manual_seed(0))
    y = x.prod(dim=1)

    @staticmethod
    def build() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.4), nn.Linear(6, 1))
        return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def old_trainer(folder: Path, stop_after: int | None, config: dict[str, Any] = OLD) -> nn.Module:
    """As it was before Unbroken: global seed, DataLoader(shuffle=True), a checkpoint with NumPy's state as a tuple."""
    random.seed(config["seed"])
    np.random.seed(config["seed"])
    torch.manual_seed(config["seed"])
    model, optimizer = OldData.build()
    loader = DataLoader(TensorDataset(OldData.x, OldData.y), batch_size=config["batch_size"], shuffle=True)
    for step, (x, y) in enumerate(loader, start=1):
        optimizer.zero_grad()
        (nn.functional.mse_loss(model(x).squeeze(-1), y) * (1 + float(np.random.random()))).backward()
        optimizer.step()
        if step == stop_after:
            break
    content = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "global_step": step,
        "config_snapshot": config,
        "torch_rng_state": torch.get_rng_state(),
        "numpy_rng_state": np.random.get_state(),
        "python_rng_state": random.getstate(),
    }
    (folder / "checkpoints").mkdir(parents=True)
    torch.save(content, folder / "checkpoints" / "last.pt")
    return model


def continue_old(folder: Path, config: dict[str, Any] = OLD, stop_at: int | None = None) -> tuple[int, nn.Module]:
    """The same training as a user of the session would write it."""
    preemption.FLAG.clear()
    model = nn.Module()
    try:
        with Session.open(folder, config, checkpoint_interval=3) as run:
            model, optimizer = OldData.build()
            run.attach(Parts(model, optimizer), Plan(43, config["batch_size"], config["epochs"]))
            for batch in run.batches():
                optimizer.zero_grad()
                x, y = OldData.x[batch.records], OldData.y[batch.records]
                loss = nn.functional.mse_loss(model(x).squeeze(-1), y) * (1 + float(np.random.random()))
                loss.backward()
                optimizer.step()
                if batch.step + 1 == stop_at:
                    preemption.FLAG.request("SIGTERM")
                run.commit(loss)
            run.complete({})
    except SystemExit as end:
        return int(end.code or 0), model
    return 0, model


@pytest.mark.parametrize("stopped", [1, 4, 8])
def test_a_legacy_run_goes_on_as_the_old_trainer_would_have(tmp_path: Path, stopped: int) -> None:
    whole = old_trainer(tmp_path / "whole", None)
    old_trainer(tmp_path / "run", stopped)
    code, _ = continue_old(tmp_path / "run", stop_at=min(stopped + 2, 8) if stopped < 8 else None)
    if stopped < 8:
        assert code == 42
        code, _ = continue_old(tmp_path / "run")
    assert code == 0
    ours = torch.load(tmp_path / "run/checkpoints/last.pt", weights_only=True)
    assert differences(dict(whole.state_dict()), dict(ours["states"]["model"])) == []
    assert ours["order"]["mode"] == "legacy_random_sampler"
    assert len(events(tmp_path / "run", "legacy_adopted")) == 1
    assert events(tmp_path / "run", "resumed")[0]["train_order_mode"] == "legacy_random_sampler"
    identity = json.loads((tmp_path / "run/config_identity.json").read_text())
    assert identity["seed"] == 21 and identity["config"]["lr"] == 0.05 and "auto_resume" not in identity["config"]


def test_a_legacy_run_over_an_epoch_boundary(tmp_path: Path) -> None:
    """The second epoch is drawn from the global generator, as DataLoader did."""
    config = {**OLD, "epochs": 2}
    rng.seed_all(21)
    model, optimizer = OldData.build()
    loader = DataLoader(TensorDataset(OldData.x, OldData.y), batch_size=5, shuffle=True)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            (nn.functional.mse_loss(model(x).squeeze(-1), y) * (1 + float(np.random.random()))).backward()
            optimizer.step()
    old_trainer(tmp_path, 6, config)
    for stop in (7, 9, 12):
        assert continue_old(tmp_path, config, stop_at=stop)[0] == 42
    assert continue_old(tmp_path, config)[0] == 0
    ours = torch.load(tmp_path / "checkpoints/last.pt", weights_only=True)
    assert differences(dict(model.state_dict()), dict(ours["states"]["model"])) == []


@pytest.mark.parametrize("change", [{"lr": 0.1}, {"seed": 22}])
def test_a_legacy_run_of_another_setting_is_refused_and_nothing_is_written(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    old_trainer(tmp_path, 4)
    before = files(tmp_path)
    [(key, value)] = change.items()
    with pytest.raises(IdentityMismatch, match=f"{key}: {OLD[key]} -> {value}"):
        continue_old(tmp_path, {**OLD, **change})
    assert files(tmp_path) == before


def test_a_legacy_file_without_a_config_is_refused(tmp_path: Path) -> None:
    old_trainer(tmp_path, 4)
    content = torch.load(tmp_path / "checkpoints/last.pt", weights_only=False)
    del content["config_snapshot"]
    torch.save(content, tmp_path / "checkpoints/last.pt")
    with pytest.raises(IdentityMismatch, match="no config_snapshot"):
        continue_old(tmp_path)
    assert list(files(tmp_path)) == ["checkpoints/last.pt"]

"""Interrupted anywhere, by any signal, with any number of workers: the same bits; and each state is needed for that."""

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
)

from unbroken.training import checkpoint, order, preemption, resume, rng

SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT")


@pytest.fixture(autouse=True)
def _process() -> Any:
    with quiet_process():
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    with quiet_process():
        assert run_toy(folder) == 0
    assert status(folder)["status"] == "completed"
    return outcome(folder)


@pytest.mark.parametrize("step", range(STEPS + 1))
@pytest.mark.parametrize("name", SIGNALS)
def test_any_signal_at_any_effective_batch(tmp_path: Path, undisturbed: dict[str, Any], step: int, name: str) -> None:
    with signal_at(step, name):
        assert run_toy(tmp_path) == 42
    assert status(tmp_path)["status"] == "preempted"
    assert (status(tmp_path)["global_step"], status(tmp_path)["last_signal"]) == (step, name)
    assert [event["global_step"] for event in events(tmp_path, "graceful_shutdown")] == [step]
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path)) == []
    assert status(tmp_path)["resubmit_count"] == 1


@pytest.mark.parametrize("step", [1, 3, 4])
def test_workers_change_nothing_c24(tmp_path: Path, undisturbed: dict[str, Any], step: int) -> None:
    with signal_at(step):
        assert run_toy(tmp_path, num_workers=2) == 42
    assert run_toy(tmp_path, num_workers=1) == 0
    assert differences(undisturbed, outcome(tmp_path)) == []


def test_augmentation_from_the_global_generators_is_the_same_for_any_number_of_workers_c24(tmp_path: Path) -> None:
    assert run_toy(tmp_path / "plain") == 0
    for workers in (0, 1, 2):
        folder = tmp_path / str(workers)
        if workers == 1:
            with signal_at(4):
                assert run_toy(folder, task=Toy(3, augments=True), num_workers=workers) == 42
        assert run_toy(folder, task=Toy(3, augments=True), num_workers=workers) == 0
    assert differences(outcome(tmp_path / "0"), outcome(tmp_path / "1")) == []
    assert differences(outcome(tmp_path / "0"), outcome(tmp_path / "2")) == []
    assert differences(outcome(tmp_path / "0"), outcome(tmp_path / "plain"))


def test_three_interruptions_in_one_epoch_and_a_signal_sent_twice(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    for step, times in ((1, 1), (2, 2), (3, 3)):
        with signal_at(step, times=times):
            assert run_toy(tmp_path) == 42
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path)) == []
    assert len(events(tmp_path, "graceful_shutdown")) == 3
    assert status(tmp_path)["attempt"] == 4


def test_stopped_at_every_step_one_after_the_other(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    for step in range(STEPS + 1):
        with signal_at(step):
            assert run_toy(tmp_path) == 42
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path)) == []


@pytest.mark.parametrize("turn", range(3))
@pytest.mark.parametrize("epoch_end", [1, 2])
def test_stopped_in_an_evaluation_which_is_then_redone_c03(
    tmp_path: Path, undisturbed: dict[str, Any], turn: int, epoch_end: int
) -> None:
    task, turns = Toy(3), []

    def stop(now: int) -> None:
        turns.append(now)
        if len(turns) == 3 * (epoch_end - 1) + turn + 1:
            preemption.FLAG.request("SIGTERM")

    task.in_evaluation = stop
    assert run_toy(tmp_path, task=task) == 42
    assert status(tmp_path)["global_step"] == 3 * epoch_end
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path)) == []


@pytest.mark.parametrize("stage", checkpoint.STAGES)
def test_a_signal_during_a_save_c01(
    tmp_path: Path, undisturbed: dict[str, Any], stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_stage", lambda now: preemption.FLAG.request("SIGTERM") if now == stage else None)
    code = run_toy(tmp_path)
    monkeypatch.setattr(checkpoint, "_stage", lambda now: None)
    assert code == 42
    assert len(events(tmp_path, "graceful_shutdown")) == 1
    saved = [event["global_step"] for event in events(tmp_path, "checkpoint_saved")]
    assert saved == sorted(set(saved)), "the stop must not save again what was just saved"
    run_to_the_end(tmp_path)
    assert differences(undisturbed, outcome(tmp_path)) == []


def test_a_signal_before_anything_is_built_c03(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    class Slow(Toy):
        def build(self, device: torch.device) -> Any:
            preemption.FLAG.request("SIGUSR1")
            return super().build(device)

    assert run_toy(tmp_path, task=Slow(3)) == 42
    assert [event["saved"] for event in events(tmp_path, "graceful_shutdown")] == [True]
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path)) == []


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    assert run_toy(tmp_path) == 0
    before = outcome(tmp_path)
    task = Toy(3)
    assert run_toy(tmp_path, task=task) == 0
    assert task.seen == []
    assert differences(before, outcome(tmp_path)) == []


def test_sample_ids_equal_the_undisturbed_runs_c18(tmp_path: Path) -> None:
    whole = Toy(3)
    assert run_toy(tmp_path / "whole", task=whole) == 0
    first, second = Toy(3), Toy(3)
    with signal_at(4):
        assert run_toy(tmp_path / "parts", task=first) == 42
    assert run_toy(tmp_path / "parts", task=second) == 0
    assert first.seen + second.seen == whole.seen
    assert sorted(r for step, epoch, ids in whole.seen if epoch == 1 for r in ids) == list(range(40))
    orders = [[r for _, e, ids in whole.seen if e == epoch for r in ids] for epoch in (0, 1)]
    assert orders[0] != orders[1]


def test_an_interrupted_accumulation_group_is_done_again_whole_c19(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """A kill between the two micro-batches of a group: neither lost nor counted twice."""

    class Killed(Toy):
        def loss(self, parts: Any, batch: Any, step: int) -> Any:
            if step == 4 and len(self.seen) % 2 == 1:
                raise MemoryError("in the middle of a group")
            return super().loss(parts, batch, step)

    with pytest.raises(MemoryError):
        run_toy(tmp_path, task=Killed(3))
    assert status(tmp_path)["status"] == "failed"
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path)) == []


@pytest.mark.parametrize("state", ["model", "optimizer", "scheduler", "scaler", "ema"])
def test_each_part_matters(
    tmp_path: Path, undisturbed: dict[str, Any], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with signal_at(4):
        assert run_toy(tmp_path) == 42
    monkeypatch.delitem(resume.RESTORERS, state)
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path))


@pytest.mark.parametrize("state", ["torch", "numpy", "python"])
def test_each_random_state_matters(
    tmp_path: Path, undisturbed: dict[str, Any], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with signal_at(4):
        assert run_toy(tmp_path) == 42
    monkeypatch.delitem(rng.RESTORERS, state)
    assert run_toy(tmp_path) == 0
    changed = differences(undisturbed, outcome(tmp_path))
    assert any(name.startswith(".last.pt.states.model") for name in changed)


def test_the_order_seed_matters(tmp_path: Path, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with signal_at(4):
        assert run_toy(tmp_path) == 42
    real = order.epoch_order
    monkeypatch.setattr(order, "epoch_order", lambda seed, epoch, records: real(seed, 0, records))
    assert run_toy(tmp_path) == 0
    assert differences(undisturbed, outcome(tmp_path))


def test_learning_rate_trace_is_in_the_metrics_c20(undisturbed: dict[str, Any]) -> None:
    rows = [line.split(",") for line in undisturbed["metrics"].decode().splitlines()]
    assert rows[0][:4] == ["step", "epoch", "lr", "loss"]
    assert [row[0] for row in rows[1:]] == [str(step) for step in range(1, STEPS + 1)]
    rates = [float(row[2]) for row in rows[1:]]
    assert rates == pytest.approx([0.05, 0.05, 0.035, 0.035, 0.0245, 0.0245])


def test_evaluation_in_the_middle_of_an_epoch_and_a_limit_on_steps(tmp_path: Path) -> None:
    config = {**CONFIG, "evaluate_every": 2, "steps": 5}
    assert run_toy(tmp_path / "whole", config) == 0
    for step in range(6):
        with signal_at(step):
            assert run_toy(tmp_path / "parts", config) == 42
    assert run_toy(tmp_path / "parts", config) == 0
    assert differences(outcome(tmp_path / "whole"), outcome(tmp_path / "parts")) == []
    scores = [line.split(",")[4] for line in (tmp_path / "whole" / "metrics.csv").read_text().splitlines()[1:]]
    assert [bool(score) for score in scores] == [False, True, True, True, True]

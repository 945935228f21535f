"""The drill's judgement: what differs, in the order of cause and effect; when to interrupt; how it saves."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from unbroken.collection.run_dir import RunPaths
from unbroken.drill import traces, tracing
from unbroken.drill.case import Outcome
from unbroken.drill.compare import Difference, differences, leaves, readable, same
from unbroken.drill.findings import excuse, findings, not_deterministic
from unbroken.drill.gauge import Gauge, last_step
from unbroken.drill.parts import part_of
from unbroken.drill.points import Point, Scale
from unbroken.drill.traces import Cause, Step, first_cause
from unbroken.errors import UnbrokenError


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("states.model.0.weight", "weights"),
        ("model_state_dict.0.weight", "weights"),
        ("optimizer.state.0.step", "optimizer"),
        ("opt.param_groups[0].lr", "optimizer"),
        ("states.scheduler.last_epoch", "scheduler"),
        ("scaler.scale", "scaler"),
        ("rng[0].torch", "torch RNG"),
        ("rng_state", "torch RNG"),
        ("numpy_rng_state.key", "NumPy RNG"),
        ("rng[0].cuda[0]", "CUDA RNG"),
        ("python_rng_state[1]", "Python RNG"),
        ("sampler_state", "order"),
        ("order.sampler_seed", "order"),
        ("global_step", "position"),
        ("epoch", "position"),
        ("evaluation.values.nse", "metrics"),
        ("best_loss", "metrics"),
        ("note", "other"),
    ],
)
def test_the_part_that_a_key_belongs_to(key: str, part: str) -> None:
    assert part_of(key) == part


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 1j]), True),
        (torch.empty(0), torch.empty(0), True),
        (float("nan"), float("nan"), True),
        (1, True, False),
        (1, 1.0, False),
        ([1, 2], [1, 3], False),
    ],
)
def test_same_is_bit_for_bit(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal


def test_leaves_of_nested_states() -> None:
    value = {"a": {"b": [{"c": 1}, [2, 3]]}, "d": (1, 2), "e": {}}
    assert dict(leaves(value)) == {"a.b[0].c": 1, "a.b[1]": [2, 3], "d": (1, 2)}


def run_dir(folder: Path, state: dict[str, Any], rows: list[str] = (), result: object = None) -> RunPaths:  # type: ignore[assignment]
    paths = RunPaths(folder)
    paths.checkpoints.mkdir(parents=True)
    torch.save(state, paths.last)
    paths.result.write_text(json.dumps(result if result is not None else {"loss": 1.0}))
    if rows:
        paths.metrics.write_text("".join(f"{row}\n" for row in rows))
    return paths


def state(**changes: Any) -> dict[str, Any]:
    model, optimizer = {"w": torch.ones(2)}, {"state": {0: {"exp_avg": torch.ones(2)}}}
    return {"model": model, "optimizer": optimizer, "rng": torch.zeros(4, dtype=torch.uint8), "epoch": 3, **changes}


def test_differences_stand_in_the_order_of_causes(tmp_path: Path) -> None:
    whole = run_dir(tmp_path / "a", state(), ["step,loss", "1,0.5", "2,0.4"])
    changed = state(model={"w": torch.zeros(2)}, rng=torch.ones(4, dtype=torch.uint8))
    changed["optimizer"] = {"state": {0: {"exp_avg": torch.zeros(2)}}}
    other = run_dir(tmp_path / "b", changed, ["step,loss", "1,0.5", "2,0.3"], {"loss": 2.0})
    found, notes = differences(whole, other)
    assert [item.part for item in found] == ["torch RNG", "optimizer", "weights", "metrics", "result"]
    assert "2 of 2 values differ, by up to 1" in found[1].text and "row 2: 0.4 -> 0.3" in found[3].text
    assert notes == [] and differences(whole, whole) == ([], [])


def test_a_checkpoint_at_another_place_is_not_compared(tmp_path: Path) -> None:
    whole = run_dir(tmp_path / "a", state())
    found, notes = differences(whole, run_dir(tmp_path / "b", state(epoch=2, model={"w": torch.zeros(2)})))
    assert found == [] and "epoch 3 -> 2" in notes[0]
    found, _ = differences(whole, run_dir(tmp_path / "c", state(epoch=2), result={"loss": 3.0}))
    assert [item.part for item in found] == ["result"]


def test_a_step_that_stands_twice(tmp_path: Path) -> None:
    whole = run_dir(tmp_path / "a", state(), ["step,loss", "1,0.5", "2,0.4"])
    other = run_dir(tmp_path / "b", state(), ["step,loss", "1,0.5", "1,0.5", "2,0.4"])
    found, _ = differences(whole, other)
    assert [str(item) for item in found] == ["metrics.csv step 1: stands twice after the resume"]


def test_checkpoints_that_are_no_torch_files(tmp_path: Path) -> None:
    for name, content in (("a", b'{"step": 1, "total": 2}'), ("b", b'{"step": 1, "total": 3}'), ("c", b"\x80raw")):
        paths = run_dir(tmp_path / name, {})
        paths.last.write_bytes(content)
    a, b, c = (RunPaths(tmp_path / name) for name in "abc")
    assert [str(item) for item in differences(a, b)[0]] == ["last.pt total: 2 -> 3"]
    assert differences(c, c)[0] == [] and differences(a, c)[0]
    assert readable(a.last) and not readable(c.last)


def test_places_that_no_two_runs_agree_on_are_excused_and_states_never(tmp_path: Path) -> None:
    when = Difference("result.json", "finished_at", "metrics", "1 -> 2")
    weights = Difference("last.pt", "model.w", "weights", "2 of 2")
    outcomes = [Outcome("TERM", "x", "fail", differences=[when]), Outcome("KILL", "x", "fail", differences=[weights])]
    after = excuse(outcomes, [when, weights])
    assert [outcome.verdict for outcome in after] == ["pass", "fail"]
    assert "no two runs agree" in after[0].notes[0]
    assert not_deterministic([when]) is None
    unstable = not_deterministic([when, weights])
    assert unstable is not None and unstable.part == "weights" and "seed every generator" in unstable.advice


def test_findings_name_the_save_and_the_signals_before_the_states() -> None:
    weights = Difference("last.pt", "model.w", "weights", "2 of 2")
    rng = Difference("last.pt", "rng", "torch RNG", "4 of 4")
    outcomes = [
        Outcome("KILL", "x", "fail", differences=[weights, rng]),
        Outcome("TERM", "x", "fail", problem="ignores the signal"),
    ]
    assert [item.part for item in findings(outcomes, [], True)] == ["save", "signals", "torch RNG"]
    assert [item.part for item in findings(outcomes, [Cause("order", "x")], False)] == ["signals", "order"]


PARTS = ("torch RNG", "NumPy RNG", "Python RNG", "optimizer", "scheduler", "weights", "gradients")


def trace(count: int) -> list[Step]:
    """Every part another number at every step, but NumPy's generator, which nobody uses."""
    return [Step(0, {part: 0 if part == "NumPy RNG" else 10 * n for part in PARTS}, 1.0) for n in range(count)]


def changed(step: Step, norm: float = 3.3, **parts: int) -> Step:
    names = {name.replace(" ", "_"): name for name in PARTS}
    return Step(0, {**step.parts, **{names[key]: value for key, value in parts.items()}}, norm)


@pytest.mark.parametrize(
    ("first", "part"),
    [
        ({"torch_RNG": 1, "gradients": 1, "optimizer": 1}, "torch RNG"),
        ({"NumPy_RNG": 1, "gradients": 1}, "order"),
        ({"gradients": 1}, "order"),
        ({"optimizer": 1}, "optimizer"),
        ({"scheduler": 1}, "scheduler"),
        ({"weights": 1, "gradients": 1}, "weights"),
        ({"weights": 0, "gradients": 1}, "weights"),
        ({"gradients": 1, "norm": 4.0}, "scaler"),
        ({}, None),
        ({"torch_RNG": 1}, None),
    ],
)
def test_the_first_cause_of_two_traces(first: dict[str, Any], part: str | None) -> None:
    whole = trace(6)
    cause = first_cause(whole, [changed(whole[3], **first), *whole[4:]], had_checkpoint=True)
    assert (cause.part if cause else None) == part


def test_a_run_that_starts_again_from_the_beginning_is_no_cause() -> None:
    whole = trace(6)
    assert first_cause(whole, whole, had_checkpoint=True) is None
    assert first_cause(whole, [], True) is None and first_cause([], whole, True) is None
    assert (first_cause(whole, [*whole[4:], whole[5]], True) or Cause("", "")).part == "order"


def test_the_tracer_changes_nothing_and_writes_a_line_a_step(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "for _ in range(3):\n    model(torch.randn(4, 2)).sum().backward()\n    optimizer.step()\n"
        "print(torch.rand(1).item(), model.weight.tolist())\n"
    )
    hook = traces.prepare(tmp_path)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import os\nos.environ['OTHER_SITE'] = '1'\n")
    script.write_text(script.read_text() + "import os\nassert os.environ.get('OTHER_SITE')\n")
    said = []
    for path, more in ([tmp_path / "site"], {}), ([hook, tmp_path / "site"], {tracing.VARIABLE: str(tmp_path)}):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **more, "UNBROKEN_ATTEMPT": "1"}
        done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
    steps = traces.read(tmp_path, 1)
    assert len(steps) == 3 and len({step.parts["weights"] for step in steps}) == 3
    assert (
        len({step.parts["optimizer"] for step in steps}) == 3 and len({step.parts["scheduler"] for step in steps}) == 1
    )


def test_points() -> None:
    scale = Scale("step", 20, 4, 10.0)
    assert [point.value for point in scale.chosen([1, 19])] == [1, 19]
    for step in (0, 20):
        with pytest.raises(UnbrokenError, match="the run has 20 steps"):
            scale.chosen([step])
    with pytest.raises(UnbrokenError, match="does not tell its steps"):
        Scale("time", None, 1, 10.0).chosen([3])
    values = {scale.random(random.Random(seed)).value for seed in range(50)}
    assert min(values) >= 1 and max(values) <= 19 and len(values) > 5
    assert Point("step", 1).earlier() == Point("step", 1)
    assert Point("step", 19).later(scale) == Point("step", 19)


def test_the_gauge_tells_a_save_in_place_from_a_renamed_one(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    paths.checkpoints.mkdir()
    with Gauge(paths) as gauge:
        for number in range(5):
            part = paths.last.with_suffix(".part")
            part.write_text("x" * number)
            os.replace(part, paths.last)
            gauge.look()
        assert gauge.saves == 5 and not gauge.in_place
        paths.last.write_text("in place")
        gauge.look()
        assert gauge.in_place


def test_the_gauge_reads_steps_from_every_file(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    paths.checkpoints.mkdir()
    with Gauge(paths) as gauge:
        gauge.look()
        assert gauge.step is None
        paths.metrics.write_text("epoch,step,loss\n0,3,1.0\n0,4,")
        gauge.look()
        assert gauge.step == 3 and last_step(paths.metrics) == 3
        paths.last.write_text("x")
        RunPaths.sidecar(paths.last).write_text('{"global_step": 5}')
        gauge.look()
        assert gauge.step == 5
        paths.status.write_text('{"global_step": 7, "total_steps": 9}')
        gauge.look()
        assert (gauge.step, gauge.total, gauge.saves) == (7, 9, 1)
    with Gauge(paths) as again:
        assert again.first_step == 7

"""``unbroken.run()``: what a script sees at the start, on a signal, on a mistake, and when nothing is left to do."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.training_kit import quiet_process

import unbroken
from unbroken.training import preemption

Script = Callable[..., tuple[int, str]]

SCRIPT = """
import torch, unbroken
with unbroken.run(seed=1, config={"lr": 0.1}) as run:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=run.config["lr"])
    data = torch.randn(12, 3)
    run.attach(unbroken.Parts(model, optimizer), unbroken.Plan(12, batch_size=2, epochs=2, accumulation=2))
    for batch in run.batches():
        optimizer.zero_grad()
        sizes = []
        for records in run.micro_batches(batch):
            sizes.append(len(records))
            loss = model(data[records]).square().mean()
            loss.backward()
        optimizer.step()
        assert sum(sizes) == len(batch.records) and max(sizes) == 2
        STOP
        run.commit(loss)
    run.complete({"bias": model.bias.item()})
"""
STOP = "if batch.step == 4: import os, signal; os.kill(os.getpid(), signal.SIGUSR1)"


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs the script in this process as it would run in its own; its exit code and what it printed."""

    def start(folder: Path, text: str = SCRIPT, stop: str = "pass") -> tuple[int, str]:
        source, code = text.replace("STOP", stop).replace("unbroken.run(", f"unbroken.run({str(folder)!r}, "), 0
        with quiet_process():
            preemption.FLAG.clear()
            try:
                exec(compile(source, "train.py", "exec"), {})
            except SystemExit as end:
                code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out + said.err

    return start


def test_a_script_stopped_and_started_again_ends_in_the_same_bits(tmp_path: Path, script: Script) -> None:
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    assert script(alone)[0] == 0
    code, said = script(stopped, stop=STOP)
    assert code == 42 and "saved at step 5" in said
    code, said = script(stopped)
    assert code == 0 and "resumed from checkpoint" in said
    assert (alone / "result.json").read_bytes() == (stopped / "result.json").read_bytes()
    code, said = script(stopped, stop="raise AssertionError")
    assert code == 0 and "nothing to train" in said


def test_a_mistake_is_one_message_and_its_exit_code(tmp_path: Path, script: Script) -> None:
    assert script(tmp_path / "run")[0] == 0
    code, said = script(tmp_path / "run", SCRIPT.replace('"lr": 0.1', '"lr": 0.2'))
    assert code == 44 and "lr: 0.1 -> 0.2" in said
    code, said = script(tmp_path / "new", SCRIPT.replace("run.commit(loss)", "pass"))
    assert code == 1 and "was committed 0 times" in said
    events = [json.loads(line)["event"] for line in (tmp_path / "new" / "events.jsonl").read_text().splitlines()]
    assert events == ["run_started", "run_failed"]


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("run.commit(loss)", "run.commit(loss), run.commit(loss)", "was committed 2 times"),
        ("run.commit(loss)", "run.commit(loss, acuracy=1.0)", "commit() was given acuracy, which is no column"),
        ("for batch in", "run.attach(None, None)\n    for batch in", "attach() was called before"),
        ("run.attach(", "list(run.batches())\n    run.attach(", "call attach() before batches()"),
        ("accumulation=2)", "accumulation=2), evaluate=lambda check: None", "evaluate returned None"),
    ],
)
def test_the_usual_slips_are_named(tmp_path: Path, script: Script, right: str, wrong: str, said: str) -> None:
    assert right in SCRIPT
    code, heard = script(tmp_path, SCRIPT.replace(right, wrong))
    assert code == 1 and said in heard


def test_a_script_that_swallows_the_exit_does_not_go_on(tmp_path: Path, script: Script) -> None:
    swallowed = "try:\n            run.commit(loss)\n        except BaseException: pass"
    code, said = script(tmp_path, SCRIPT.replace("run.commit(loss)", swallowed), stop=STOP)
    assert code == 42 and said.count("saved at step 5") == 1 and not (tmp_path / "result.json").exists()


def test_an_early_end_judges_the_weights_as_they_are(tmp_path: Path, script: Script) -> None:
    text = SCRIPT.replace(
        "accumulation=2)", "accumulation=2), columns=['b'], evaluate=lambda check: dict(b=model.bias)"
    )
    text = text.replace(
        'run.complete({"bias": model.bias.item()})', "print('bias is', model.bias.item()); run.complete()"
    )
    code, said = script(
        tmp_path, text.replace("run.commit(loss)", "run.commit(loss)\n        if batch.step == 4: break")
    )
    result = json.loads((tmp_path / "result.json").read_text())
    assert code == 0 and result["steps"] == 5
    assert result["metrics"]["b"] == float(said.split("bias is ")[1].split()[0])


def test_rows_that_metrics_csv_has_lost_are_told(tmp_path: Path, script: Script) -> None:
    logged = SCRIPT.replace("unbroken.run(seed=1,", "unbroken.run(seed=1, log_every=1,")
    assert script(tmp_path, logged, stop=STOP)[0] == 42
    rows = (tmp_path / "metrics.csv").read_text().splitlines(keepends=True)
    (tmp_path / "metrics.csv").write_text("".join(rows[:2] + rows[3:]))
    code, said = script(tmp_path, logged)
    assert code == 0 and f"has lost {len(rows[2])} bytes" in said
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["bytes"] for event in events if event["event"] == "metrics_rows_lost"] == [len(rows[2])]


def test_a_loss_that_is_no_number_is_told_once(tmp_path: Path, script: Script) -> None:
    diverging = SCRIPT.replace("unbroken.run(seed=1,", "unbroken.run(seed=1, log_every=1,")
    diverging = diverging.replace("run.commit(loss)", "run.commit(loss if batch.step < 2 else float('nan'))")
    code, said = script(tmp_path, diverging)
    assert code == 0 and said.count("the loss is nan at step 3") == 1
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [event["global_step"] for event in events if event["event"] == "loss_not_finite"] == [3]


def test_a_mistake_has_no_traceback_and_a_crash_has_its_own(tmp_path: Path) -> None:
    environment = {**os.environ, "UNBROKEN_RUN_DIR": str(tmp_path)}
    for source, wanted, traced in (
        ("with unbroken.run(config={}, checkpoint_interval=-1, keep_last=-1) as run: pass", "keep_last is -1", False),
        ("with unbroken.run(config={}) as run: raise KeyError('mine')", "KeyError: 'mine'", True),
    ):
        argv = [sys.executable, "-c", f"import unbroken\n{source}"]
        ended = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 1 and wanted in ended.stderr and ("Traceback" in ended.stderr) == traced, (
            ended.stderr
        )


def test_a_signal_before_anything_is_attached(tmp_path: Path) -> None:
    with quiet_process():
        preemption.FLAG.clear()
        with pytest.raises(SystemExit) as end, unbroken.run(tmp_path, {}, 0) as run:
            os.kill(os.getpid(), signal.SIGTERM)
            run.check()
        assert end.value.code == 42
    assert not (tmp_path / "checkpoints").exists()


def test_names_are_looked_up_without_torch() -> None:
    code = "import sys, unbroken; assert 'run' in dir(unbroken); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in unbroken.__all__:
        assert getattr(unbroken, name).__doc__
    with pytest.raises(AttributeError, match="nosuch"):
        getattr(unbroken, "nosuch")  # noqa: B009

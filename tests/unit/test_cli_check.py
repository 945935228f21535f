"""`unbroken check`: what it refuses, warns of and estimates."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Cli

from unbroken.cli.estimate import limit_hours, size


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path, capsys)


def test_every_mistake_is_told_and_the_code_is_1(cli: Cli) -> None:
    cli.config(collections=["x", "gone"])
    cli.add(nonsense=1)
    cli.add("fine")
    code, said = cli("check")
    assert code == 1
    assert "x.yaml" in said and "`nonsense` is no known key" in said and "gone.yaml: does not exist" in said
    assert "fine: 1 setting x 2 seeds = 2 runs; 0 finished, 2 to do (runs by name: snakemake fine)" in said


@pytest.mark.parametrize("content", ["", "a: [", "collections: 3", "collections: [x]\nwhat: 1"])
def test_a_bad_config_is_told(cli: Cli, content: str) -> None:
    (cli.folder / "config" / "config.yaml").write_text(content)
    cli.add()
    code, said = cli("check")
    assert code == 1 and "error: " in said and "config.yaml" in said and "x: 1 setting" in said


@pytest.mark.parametrize(
    ("keys", "near"),
    [
        ({"config": {"checkpoint_intervall": 3}}, "checkpoint_interval"),
        ({"config": {"Keep-Last": 3}}, "keep_last"),
        ({"config": {"opt": {"num_worker": 3}}}, "num_workers"),
        ({"grid": {"max_resubmit_attempt": [1, 2]}}, "max_resubmit_attempts"),
        ({"config": {"hidden": 1}, "settings": [{"hiden": 2}]}, "hidden"),
        ({"config": {"learning_rate": 1, "learing_rate": 2}}, "learning_rate"),
    ],
)
def test_a_likely_slip_is_a_warning(cli: Cli, keys: dict[str, Any], near: str) -> None:
    cli.add(**keys)
    code, said = cli("check", "x")
    assert code == 0 and said.count("warning: ") == 1 and f"`{near}`" in said


def test_ordinary_keys_are_no_slips(cli: Cli) -> None:
    config = {
        key: 1 for key in ("lr", "lr_min", "lr_max", "beta1", "beta2", "hidden", "eval_every", "save_best", "warmup")
    }
    cli.add(config=config, operational={"checkpoint_interval": 3})
    assert "warning" not in cli("check", "x")[1]


def test_programs_and_scripts_that_are_not_there(cli: Cli) -> None:
    cli.add(command="no-such-program train.py --out {run_dir}/x.py")
    _, said = cli("check", "x")
    assert "`no-such-program`" in said and "`train.py`" in said and said.count("warning: ") == 2


def test_a_script_outside_the_pinned_code(cli: Cli) -> None:
    (cli.folder / "train.py").touch()
    operational = {"job_code_snapshot_enabled": True}
    cli.add(command=f"true {cli.folder / 'train.py'}", operational=operational)
    assert "absolute path" in cli("check", "x")[1]
    cli.add(command="true train.py", operational=operational)
    assert "warning" not in cli("check", "x")[1]


def test_cost_is_the_limit_until_a_run_has_finished(cli: Cli) -> None:
    cli.add(seeds=4, resources={"runtime": "1h30m"})
    assert "4 jobs, time limit 1 h 30 min each; at most 6 h 0 min in all" in cli("check", "x")[1]
    paths = cli.runs()[0]
    paths.checkpoints.mkdir(parents=True)
    paths.last.write_bytes(bytes(1_000_000))
    events = [("run_started", 1, 0), ("requeued", 1, 60), ("run_started", 2, 500), ("run_completed", 2, 560)]
    lines = [
        json.dumps({"event": event, "attempt": n, "time": f"2026-01-01T00:{at // 60:02}:{at % 60:02}.000Z"})
        for event, n, at in events
    ]
    paths.events.write_text("\n".join([*lines, "torn {"]))
    paths.result.write_text("{}")
    code, said = cli("check", "x")
    assert code == 0 and "3 jobs" in said and "about 6 min in all, by 1 finished run" in said
    assert "disk: about 4.0 MB in all (1.0 MB a run)" in said and "1 finished, 3 to do" in said


def test_json_for_programs(cli: Cli) -> None:
    cli.add(grid={"a": [1, 2, 3]})
    code, said = cli("check", "--json")
    value = json.loads(said)
    assert code == 0 and value["errors"] == []
    assert {key: value["collections"][0][key] for key in ("runs", "jobs", "hours", "listed")} == {
        "runs": 6,
        "jobs": 6,
        "hours": None,
        "listed": True,
    }


def test_a_file_anywhere(cli: Cli) -> None:
    (cli.folder / "y.yaml").write_text("command: 'true'\nseeds: 3\n")
    assert "y: 1 setting x 3 seeds = 3 runs" in cli("check", "y.yaml")[1]


@pytest.mark.parametrize(("runtime", "hours"), [(90, 1.5), ("2d", 48), ("1h30m", 1.5), ("x", None), (None, None)])
def test_time_limits(runtime: object, hours: float | None) -> None:
    assert limit_hours(runtime) == hours


def test_sizes() -> None:
    assert [size(n) for n in (0, 999, 1500, 2e7, 3.5e12)] == ["0 bytes", "999 bytes", "1.5 kB", "20 MB", "3.5 TB"]

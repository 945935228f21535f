"""The examples under the local workflow, interrupted for real: the same weights, bit for bit, as left alone."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from tests.workflow.project import ROOT, Project, clean_env
from unbroken.collection import load_collection

EXAMPLES = ["plain_torch", "no_handler", "with_unbroken"]


def add_example(project: Project, name: str, seeds: int = 1) -> dict[str, str]:
    """Copy the example's collection as its README says; returns its first run's paths and config."""
    if not (project.folder / "examples").exists():
        (project.folder / "examples").symlink_to(ROOT / "examples")
    keys = yaml.safe_load((ROOT / "examples" / name / f"{name}.yaml").read_text())
    keys.pop("grid", None)
    keys["config"].setdefault("lr", 0.003)
    keys["config"].update(epochs=25)
    project.add(name, **{**keys, "seeds": seeds})
    run = next(iter(load_collection(project.folder / "config" / "collections" / f"{name}.yaml").runs()))
    return {"result": str(run.paths("runs").result), "config": yaml.safe_dump(run.run_config())}


def undisturbed(project: Project, name: str, config: str) -> Path:
    """The same script started by hand in a folder of its own."""
    run = project.folder / "by_hand"
    run.mkdir()
    (run / "config.yaml").write_text(config)
    options = ["--config", run / "config.yaml", "--run-dir", run, "--seed", "0"]
    contract = {"UNBROKEN_RUN_DIR": str(run), "UNBROKEN_CONFIG": str(run / "config.yaml"), "UNBROKEN_SEED": "0"}
    argv = [sys.executable, f"examples/{name}/train.py", *(options if name == "plain_torch" else [])]
    subprocess.run(argv, cwd=project.folder, env={**clean_env(), **contract}, check=True, timeout=120)
    return run


def trainer_of(run: Path) -> int:
    """The trainer's process, a child of the launcher's."""
    launcher = json.loads((run / "run_status.json").read_text())["pid"]
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    (trainer,) = [int(pid) for pid in children if b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return trainer


def epochs_in(run: Path, attempt: int) -> int:
    log = run / "logs" / f"attempt_{attempt}.log"
    return len(re.findall(r"^epoch \d+", log.read_text(), re.MULTILINE)) if log.exists() else 0


def began_anew(run: Path, attempt: int) -> bool:
    first = (run / "logs" / f"attempt_{attempt}.log").read_text().split("\n")[0]
    return "starting at epoch 0" in first or ("with_unbroken" in str(run) and "resumed from checkpoint" not in first)


def same_bits(one: Path, other: Path) -> bool:
    saved = [torch.load(run / "checkpoints" / "last.pt", weights_only=True) for run in (one, other)]
    states = [content.get("states", content) for content in saved]  # the library's own checkpoints nest them
    pairs = [(states[0]["model"][key], states[1]["model"][key]) for key in states[0]["model"]]
    pairs += [
        (states[0]["optimizer"]["state"][n][key], value)
        for n, row in states[1]["optimizer"]["state"].items()
        for key, value in row.items()
    ]
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_interrupted_three_times_ends_in_the_same_bits(project: Project, name: str) -> None:
    example = add_example(project, name)
    snakemake = project.start(example["result"], "--cores", "1")
    run = project.one_run(name)
    kinds = (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1)
    for attempt, number in enumerate(kinds, 1):
        project.await_(lambda n=attempt: epochs_in(run, n) >= 2, f"epochs of attempt {attempt}")
        if name != "no_handler" or number == signal.SIGKILL:
            os.kill(trainer_of(run), number)  # past the launcher: its exit 42 is enough
        else:  # it dies of the signal; only the launcher knows that this was a stop and no crash
            os.kill(json.loads((run / "run_status.json").read_text())["pid"], number)
    assert snakemake.wait(120) == 0, project.log()
    assert len(list((run / "logs").glob("attempt_*.log"))) == 4
    assert [began_anew(run, number) for number in range(1, 5)] == [True, False, False, False]
    alone = undisturbed(project, name, example["config"])
    assert same_bits(run, alone)
    assert (run / "result.json").read_bytes() == (alone / "result.json").read_bytes()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_collection_of_an_example_is_valid(name: str) -> None:
    assert len(load_collection(ROOT / "examples" / name / f"{name}.yaml")) in (2, 4)

"""docs/bring-your-own.md: every command in it, in order, in a folder of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.project import ROOT, clean_env, wait_for
from unbroken.snapshot.git import LARGEST_FILE

DOCUMENT = (ROOT / "docs" / "bring-your-own.md").read_text()
SKIPPED = {"cd my_project"}
BLOCKED = {"snakemake my_drill"}
"""Runs while the test does what the text says to do in another terminal."""


def commands() -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def environment() -> dict[str, str]:
    return {**clean_env(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def kill_the_trainer(project: Path) -> None:
    """`kill -9` of train.py, once its first attempt has saved."""

    def trainer() -> int | None:
        for status in project.glob("runs/my_drill/*/seed_0/run_status.json"):
            launcher = json.loads(status.read_text())["pid"]
            log = status.parent / "logs" / "attempt_1.log"
            if launcher and log.exists() and "epoch 2:" in log.read_text():
                found = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
                return next(int(pid) for pid in found if b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes())
        return None

    os.kill(wait_for(trainer, "a trainer that has saved"), signal.SIGKILL)


@pytest.mark.slow
def test_every_command_of_the_document(tmp_path: Path) -> None:
    folder, said = tmp_path, {}
    for line in commands():
        if line in SKIPPED:
            folder = tmp_path / line.split()[1]
            continue
        process = subprocess.Popen(
            line, shell=True, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if line in BLOCKED:
            kill_the_trainer(folder)
        said[line], _ = process.communicate(timeout=300)
        assert process.returncode == 0, f"{line}:\n{said[line]}"
    check = said["unbroken check my_runs"]
    assert "2 settings x 2 seeds = 4 runs" in check and "warning" not in check
    assert "4 of 4" in said["snakemake my_runs"] or "4" in said["unbroken status my_runs"]
    assert len(said["cat results/my_runs/summary.csv"].splitlines()) > 1
    (start,) = [text for line, text in said.items() if line.startswith("head")]
    assert re.fullmatch(r"starting at epoch [1-9]\d*\n", start)


def test_what_the_document_says_is_so() -> None:
    assert len(commands()) == 12
    lines = len((ROOT / "examples" / "plain_torch" / "train.py").read_text().splitlines())
    assert f"all three in {lines} lines" in DOCUMENT
    assert f"over {LARGEST_FILE >> 20} MB" in DOCUMENT

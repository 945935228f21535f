"""Start real launchers on small real trainers."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.events import read_events
from unbroken.run_dir.status import RunStatus, read_status

SOURCE = Path(__file__).resolve().parents[2] / "src"

GRACEFUL = """
import os, signal, sys, time
from pathlib import Path
run = Path(os.environ["UNBROKEN_RUN_DIR"])
stop, counts = [], {}
def handler(number, frame):
    stop.append(number)
    with open(run / "signals", "a") as file:
        file.write(signal.Signals(number).name + "\\n")
for name in ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT"):
    signal.signal(getattr(signal, name), handler)
print("ready", flush=True)
(run / "ready").touch()
while not stop:
    signal.pause()
(run / "checkpoints").mkdir(exist_ok=True)
(run / "checkpoints" / "last.pt").write_text(str(time.monotonic_ns()))
sys.exit(42)
"""
"""Keeps the contract: waits for a signal, saves, exits 42; writes each signal it gets."""


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    """Poll until ``condition`` is true; an error that names ``what`` otherwise."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)
    return value


class Run:
    """A run directory and its launch spec."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = RunPaths(folder / "run")
        self.environment: dict[str, str] = {}
        self.spec: dict[str, Any] = {
            "schema_version": 1,
            "collection": "demo",
            "setting": "0123456789ab",
            "seed": 7,
            "label": "lr=0.1",
            "config_hash": "aa",
            "identity": {
                "schema_version": 1,
                "config_hash": "aa",
                "collection": "demo",
                "seed": 7,
                "trainer": "command",
                "config": {"lr": 0.1, "model": {"hidden": 8}},
            },
            "config_yaml": "lr: 0.1\n",
            "command": ["true"],
            "processes": 1,
            "operational": {},
            "resources": {},
        }

    def python(self, code: str) -> "Run":
        """Train by this Python program."""
        script = self.folder / "train.py"
        script.write_text(code)
        self.spec["command"] = ["{python}", "-S", str(script), "{run_dir}"]
        return self

    def bash(self, code: str) -> "Run":
        """Train by this shell program; braces doubled as a collection's author would."""
        self.spec["command"] = ["bash", "-c", code.replace("{", "{{").replace("}", "}}")]
        return self

    def start(self, *before: str, spec: str | None = None, **options: Any) -> "subprocess.Popen[bytes]":
        """A launcher in the background; ``before`` is put in front of it."""
        argv = [*before, sys.executable, "-m", "unbroken.launch", "--run-dir", str(self.paths.root)]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "UNBROKEN_"))}
        environment = {**kept, "PYTHONPATH": str(SOURCE), **self.environment}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, **options}
        return subprocess.Popen([*argv, "--spec", spec or json.dumps(self.spec)], **options)

    def run(self, *before: str, **options: Any) -> tuple[int, str]:
        """A launcher to its end: exit code and stderr."""
        return self.end(self.start(*before, **options))

    @staticmethod
    def end(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
        _, stderr = process.communicate(timeout=120)
        return process.returncode, stderr.decode()

    def ready(self) -> None:
        """Wait until the trainer has its handlers."""
        wait_for((self.paths.root / "ready").exists, "the trainer's readiness")

    @property
    def status(self) -> RunStatus:
        return read_status(self.paths)

    @property
    def events(self) -> list[str]:
        return [event["event"] for event in read_events(self.paths)]

    def file(self, name: str) -> str:
        return (self.paths.root / name).read_text()


def living(mark: str) -> list[int]:
    """Processes, zombies left out, with ``mark`` in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
    return found


def job_answer(**values: str) -> str:
    """What ``scontrol show job`` prints, in part."""
    job: Mapping[str, str] = {
        "JobId": "12",
        "JobName": "demo",
        "JobState": "RUNNING",
        "Reason": "None",
        "Restarts": "0",
        "RunTime": "00:01:00",
        "TimeLimit": "01:00:00",
        "PreemptTime": "None",
        **values,
    }
    return "\n   ".join(f"{key}={value}" for key, value in job.items()) + "\n"

"""One start of the real launcher on a scratch directory, and what can be done to it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from unbroken.collection.run_dir import RunPaths
from unbroken.drill.gauge import POLL_S, Gauge
from unbroken.drill.subject import Subject

STOP = threading.Event()
"""Set when the drill is called off; every attempt then ends at once."""


class CalledOff(Exception):
    """STOP was set."""


def _processes() -> list[tuple[int, int, int]]:
    """(process, parent, session) of every living process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    found.append((int(name), int(fields[1]), int(fields[3])))
    return found


class Attempt:
    """A launcher and its trainer; nothing of them outlives the ``with`` block."""

    def __init__(self, subject: Subject, paths: RunPaths, gauge: Gauge, home: Path, more: dict[str, str] | None = None):
        """``home``: where the launcher's spec and messages go; ``more``: further environment variables."""
        self.paths, self.gauge = paths, gauge
        self.began = time.monotonic()
        home.mkdir(parents=True, exist_ok=True)
        spec = home / "spec.json"
        if not spec.exists():
            spec.write_text(json.dumps(subject.spec), encoding="utf-8")
        argv = [sys.executable, "-m", "unbroken.launch", "--run-dir", str(paths.root), "--spec", f"@{spec}"]
        self.log = home / "launcher.log"
        with open(self.log, "ab") as log:
            self.start_of_log = log.tell()
            self.process = subprocess.Popen(
                argv,
                cwd=subject.folder,
                env={**subject.environment(), **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill_trainer()
            self.process.kill()  # the kernel then kills the trainer too
        self.process.wait()
        self.gauge.look()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def said(self) -> str:
        """What this launcher has said about itself."""
        with open(self.log, "rb") as log:
            log.seek(self.start_of_log)
            return log.read().decode("utf-8", "replace")

    def trainer(self) -> int | None:
        """The trainer's process id, which is its group's too; None before its start and after its end."""
        children = [(pid, session) for pid, parent, session in _processes() if parent == self.process.pid]
        return next((pid for pid, session in children if session == pid), None)

    def send(self, number: signal.Signals) -> None:
        """To the launcher, as Slurm and a terminal do."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def signal_trainer(self, number: signal.Signals) -> None:
        """To the whole group of the trainer, past the launcher."""
        pid = self.trainer()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    def kill_trainer(self) -> None:
        self.signal_trainer(signal.SIGKILL)

    def poll(self) -> int | None:
        """Look at the run directory, sleep a moment; the launcher's exit code once it has ended. Raises CalledOff."""
        if STOP.is_set():
            raise CalledOff
        code = self.process.poll()
        self.gauge.look()
        if code is None:
            time.sleep(POLL_S)
        return code

    def wait(self, seconds: float) -> int | None:
        """The launcher's exit code; None where it has not ended by then."""
        end = time.monotonic() + seconds
        while (code := self.poll()) is None and time.monotonic() < end:
            pass
        return code

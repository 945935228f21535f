"""`unbroken status --watch` on a terminal: it shows what changes, and Ctrl-C ends it cleanly."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli_kit import Cli

from unbroken.run_dir.status import update_status

HANG_S = 120.0
"""Only a hang is that slow."""
CTRL_C = b"\x03"
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Only the controlling terminal turns Ctrl-C into a signal."""


class Terminal:
    """A command on a pseudo-terminal of its own, as a person has it."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self.screen = ""
        self._parent, child = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *argv],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            start_new_session=True,
        )
        os.close(child)

    def wait_for(self, text: str) -> None:
        """Read until ``text`` stands on the screen."""
        ends = time.monotonic() + HANG_S
        while text not in self.screen:
            assert time.monotonic() < ends, f"{text!r} did not appear: {self.screen}"
            self._read(1.0)

    def _read(self, seconds: float) -> bool:
        """Take what has come; False when the command has closed the terminal."""
        if not select.select([self._parent], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self._parent, 65536).decode()
        except OSError:
            return False
        self.screen = (self.screen + part).rpartition("\x1b[2J")[2]  # that clears it
        return True

    def press(self, key: bytes) -> None:
        os.write(self._parent, key)

    def end(self) -> int:
        """Its exit code; what it printed last is on the screen."""
        ends = time.monotonic() + HANG_S
        while self._read(1.0):
            assert time.monotonic() < ends, f"it does not end: {self.screen}"
        return self.process.wait(HANG_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._parent)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Two runs."""
    monkeypatch.chdir(tmp_path)
    cli = Cli(tmp_path, capsys)
    cli.add()
    return cli


@pytest.fixture
def watch(cli: Cli) -> Iterator[Terminal]:
    """`unbroken status --watch`, without Slurm."""
    source = str(Path(__file__).parents[2] / "src")
    environment = {"PYTHONPATH": source, "TERM": "xterm", "COLUMNS": "160", "PATH": str(cli.folder / "nothing")}
    command = "from unbroken.cli import main; main()"
    terminal = Terminal(["-c", command, "status", "--watch", "--every", "1"], environment)
    yield terminal
    terminal.close()


def test_a_change_is_shown_and_ctrl_c_leaves_cleanly(cli: Cli, watch: Terminal) -> None:
    watch.wait_for("x: 2 runs: 2 pending")
    paths = cli.runs()[0]
    paths.root.mkdir(parents=True)
    update_status(paths, status="preempted", attempt=1, global_step=7, total_steps=9, reason="stopped (SIGTERM)")
    watch.wait_for("x: 2 runs: 1 pending, 1 preempted; 1 attempt,")
    assert "7/9" in watch.screen and "stopped (SIGTERM)" in watch.screen
    watch.press(CTRL_C)
    assert watch.end() in (0, 130)
    assert "Traceback" not in watch.screen and "KeyboardInterrupt" not in watch.screen

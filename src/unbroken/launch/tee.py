"""The trainer's output: into the attempt's log and on to the launcher's own stdout, byte for byte."""

import contextlib
import os
import threading
from pathlib import Path

from unbroken.launch.say import last_lines, lines_of, say

_CHUNK = 1 << 16
TAIL_BYTES = 8192


class Tee:
    """A thread of its own, so that a reader that has stopped reading delays no signal and no heartbeat."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._read, self.write_end = os.pipe2(os.O_CLOEXEC)
        self._moved = 0
        self.tail = b""
        """The end of the output, for when the log does not take it."""
        self.log_failed = False
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> None:
        """Begin to copy; call it when the trainer has its end of the pipe."""
        os.close(self.write_end)
        self._thread.start()

    def _copy(self) -> None:
        out_works = True
        while chunk := os.read(self._read, _CHUNK):
            self._moved += 1
            self.tail = (self.tail + chunk)[-TAIL_BYTES:]
            if not self.log_failed and (error := _write(self._log, chunk)):
                self.log_failed = True
                say(f"the attempt's log takes no more ({error}); the trainer goes on, its output only on stdout")
            if out_works and _write(1, chunk):
                out_works = False  # nobody reads any more; the log has it
            self._moved += 1

    def last_line(self, log: Path) -> str:
        """What the trainer said last: the error, where there is one. A full disk has not taken it into the log."""
        lines = lines_of(self.tail) if self.log_failed else last_lines(log, 1)
        return lines[-1] if lines else ""

    def finish(self, patience_s: float = 5.0) -> None:
        """Wait for the rest of the output, as long as it moves."""
        before = -1
        while self._thread.is_alive() and self._moved != before:
            before = self._moved
            self._thread.join(patience_s)


def _write(descriptor: int, data: bytes) -> OSError | None:
    view = memoryview(data)
    try:
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:  # somebody made our stdout non-blocking
                _wait_writable(descriptor)
    except OSError as error:
        return error
    return None


def _wait_writable(descriptor: int) -> None:
    import select

    with contextlib.suppress(OSError):
        select.select([], [descriptor], [], 1.0)

"""The stop flag: four signals set it, the training loop acts on it. Imports nothing that is slow.

A trainer's ``__main__`` calls ``install()`` as its first statement and imports torch after it, so that a signal during
the imports is kept, not fatal. Nothing is saved inside a handler (a signal interrupts at any instruction).
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
_PR_SET_PDEATHSIG = 1


class StopNow(BaseException):
    """Raised at a poll inside an evaluation or a data preparation; the session turns it into a save and exit 42."""


class StopFlag:
    """Which signal asked for the stop, if one did. The first stays; later ones change nothing."""

    __slots__ = ("signal_name",)

    def __init__(self) -> None:
        self.signal_name: str | None = None

    def request(self, name: str) -> None:
        """Ask for a stop, as a signal would."""
        if self.signal_name is None:
            self.signal_name = name

    @property
    def requested(self) -> bool:
        return self.signal_name is not None

    def check(self) -> None:
        """A safe point of something long before training: raises StopNow where a stop is asked for."""
        if self.signal_name is not None:
            raise StopNow

    def clear(self) -> None:
        """Forget the request; for a process that trains more than once, such as a test."""
        self.signal_name = None


FLAG = StopFlag()
"""The flag of this process: signals know no other address."""


def _handle(number: int, frame: FrameType | None) -> None:
    first = FLAG.signal_name is None
    name = signal.Signals(number).name
    FLAG.request(name)
    if first:
        with contextlib.suppress(OSError):
            os.write(2, f"{name} received: saving at the next safe boundary\n".encode())


def install() -> StopFlag:
    """Install the handlers; again is the same. Outside the main thread, where Python allows none, only the flag."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, _handle)
    return FLAG


def uninstall() -> None:
    """Put the default actions back (enable_graceful_shutdown: false); a signal that came already takes effect now."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if FLAG.signal_name is not None:
        signal.raise_signal(signal.Signals[FLAG.signal_name])


def shield_worker(parent: int) -> None:
    """For a data worker: ignore the stop signals (its trainer decides), and die when the trainer dies.

    Args:
        parent: process id of the trainer; if it is gone already, the worker ends here.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

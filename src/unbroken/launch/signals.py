"""The launcher's signals: remembered in order of arrival, and a pipe that wakes its main loop.

Imports next to nothing, so that the handlers are there a few milliseconds after the process starts.
"""

import contextlib
import os
import signal
from types import FrameType

_HANDLED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP)
DEFAULT_IN_TRAINER = (*_HANDLED, signal.SIGPIPE, signal.SIGCHLD)
"""Reset to their default before the trainer's exec: Snakemake leaves USR1 ignored, Python ignores PIPE."""

arrived: list[signal.Signals] = []
"""Every signal so far, HUP as TERM; only ever appended to."""
_wake: list[int] = []


def _remember(number: int, _frame: FrameType | None) -> None:
    arrived.append(signal.SIGTERM if number == signal.SIGHUP else signal.Signals(number))


def _wake_only(_number: int, _frame: FrameType | None) -> None:
    pass


def install() -> None:
    """Take over the signals; those that ``nohup`` had ignored stay ignored. Idempotent."""
    if _wake:
        return
    _wake.extend(os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))
    signal.set_wakeup_fd(_wake[1], warn_on_full_buffer=False)
    for number in _HANDLED:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _remember)
    signal.signal(signal.SIGCHLD, _wake_only)


def wake() -> None:
    """Wake the main loop from another thread."""
    with contextlib.suppress(BlockingIOError):  # full: it will wake anyway
        os.write(_wake[1], b"\0")


def wait(seconds: float | None) -> None:
    """Sleep until a signal, a child's end or ``wake()``, at most ``seconds``."""
    import select

    poller = select.poll()
    poller.register(_wake[0], select.POLLIN)
    if poller.poll(None if seconds is None else max(0, int(seconds * 1000) + 1)):
        with contextlib.suppress(BlockingIOError):
            while os.read(_wake[0], 4096):
                pass

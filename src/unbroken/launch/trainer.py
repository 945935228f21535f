"""Start the trainer in a session of its own, and find and end everything below it."""

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from unbroken.errors import UnbrokenError
from unbroken.launch.signals import DEFAULT_IN_TRAINER

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _prctl() -> Any:
    """libc's prctl, or None where there is none."""
    try:
        import ctypes

        return ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None


def start(argv: list[str], environment: Mapping[str, str], output: int) -> int:
    """Start ``argv`` as leader of a new session; its stdout and stderr go to ``output``. Returns its process id.

    The kernel kills it when the launcher dies, and gives the launcher its orphans.

    Raises:
        UnbrokenError: the command cannot be run; names it and the reason.
        OSError: no process can be made.
    """
    prctl = _prctl()
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(argv, environment, output, stdin, write_end, prctl, launcher)
    os.close(write_end)
    os.close(stdin)
    with open(read_end, "rb") as file:
        number = file.read()
    if number:
        os.waitpid(pid, 0)
        raise UnbrokenError(f"cannot start the trainer: {argv[0]}: {_explain(int(number), argv[0])}")
    return pid


def _become(
    argv: list[str], environment: Mapping[str, str], output: int, stdin: int, failed: int, prctl: Any, launcher: int
) -> NoReturn:
    """In the child: turn into the trainer, or tell why not."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in DEFAULT_IN_TRAINER:
            signal.signal(number, signal.SIG_DFL)
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == launcher:
            os.dup2(stdin, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.execvpe(argv[0], argv, environment)
    except OSError as error:
        os.write(failed, str(error.errno).encode())
    finally:
        os._exit(127)


def _explain(number: int, command: str) -> str:
    if number == errno.ENOENT:
        return "no such program on PATH" if "/" not in command else "no such file (or its interpreter is missing)"
    if number == errno.ENOEXEC:
        return "neither a program nor a script with a #! line"
    return os.strerror(number)


def trainer_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The launcher's environment, output unbuffered, and ``extra``."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", **extra}


def descendants() -> set[int]:
    """Every process below this one, zombies left out. As their reaper it sees those without a parent too."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    below.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        children = below.get(todo.pop(), [])
        found.update(children)
        todo.extend(children)
    return found


def signal_all(leader: int, number: signal.Signals) -> None:
    """Send a signal once to every process of the trainer's group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_everything(leader: int) -> None:
    """SIGKILL to the group and to all other descendants."""
    signal_all(leader, signal.SIGKILL)
    if sys.platform == "linux":
        for pid in descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def reap() -> dict[int, int] | None:
    """Exit codes (-n for signal n) of the children that have ended, by id; None when there is no child left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)

"""The faults. Each works on a Case: interrupts it, and has it go on to its end; Trouble and Noted tell the rest."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from unbroken import exit_codes
from unbroken.collection.run_dir import RunPaths
from unbroken.drill.attempt import Attempt
from unbroken.drill.case import Case, Noted, Trouble
from unbroken.drill.compare import readable
from unbroken.drill.disk import small_disk
from unbroken.drill.gauge import Gauge
from unbroken.drill.points import Point
from unbroken.run_dir.events import read_events

_TRIES = 4
_IGNORED_SHARE = 0.3
"""Of the training's time: a trainer that goes on for so long after a signal to its end has ignored it."""
_SAID = {"KILL": "killed", "FULL_DISK": "ended without room"}
"""Where the launcher's own words say less, or could not be written."""
_BETWEEN_S = 0.02
_FULL_WAIT_S = 10.0
_END_S = 30.0

HANDLER_ADVICE = (
    "on SIGTERM, SIGUSR1, SIGUSR2 and SIGINT set a flag only; at the next optimizer step save, then sys.exit(42)"
)
CATCH_ADVICE = "let the resume fall back on a previous.pt, as unbroken's own checkpoints do, or keep copies of your own"


class TooShort(Trouble):
    """The run was over before the interruption."""


Interrupt = Callable[[Attempt], int | None]
"""Does something to a running attempt and returns the launcher's exit code; None where it does not end."""


def interrupt(case: Case, act: Interrupt, point: Point | None = None, saved: bool = False, fresh: bool = True) -> int:
    """Start, come to the point, act; again and earlier where the run was over before.

    Raises:
        Trouble: it ignores the interruption, or is too short for one.
    """
    at = point or case.point
    for _ in range(_TRIES):
        if fresh:
            case.fresh()
        with case.attempt() as attempt:
            if case.reach(attempt, at, saved):
                case.about_to_interrupt(attempt)
                began = time.monotonic()
                code = act(attempt)
                took = time.monotonic() - began
                if code is None:
                    attempt.kill_trainer()
                    attempt.wait(_END_S)
                    text = f"does not stop: it went on for {took:.0f} s after the signal; a cluster would kill it"
                    raise Trouble(text, HANDLER_ADVICE)
                on_s = case.trained_on_s()
                if on_s is None:
                    case.interrupted(attempt)
                    case.happened.append(f"{_SAID.get(case.fault) or case.reason()} ({took:.1f} s)")
                    return code
                if code == exit_codes.COMPLETED and on_s > _IGNORED_SHARE * case.whole.training_s:
                    text = f"ignores the signal: it trained on for {on_s:.1f} s to its end; a cluster would kill it"
                    raise Trouble(text, HANDLER_ADVICE)
        if not fresh:
            break
        at = at.earlier()
    raise TooShort(
        "was over before the interruption came: nothing is shown by so short a run",
        "drill a longer one, e.g. --set epochs=20",
    )


def send(case: Case, *names: str) -> Interrupt:
    """The first signal to the launcher, the others close behind it, to launcher and trainer."""

    def act(attempt: Attempt) -> int | None:
        attempt.send(signal.Signals[f"SIG{names[0]}"])
        for name in names[1:]:
            time.sleep(_BETWEEN_S)
            attempt.send(signal.Signals[f"SIG{name}"])
            attempt.signal_trainer(signal.Signals[f"SIG{name}"])
        return attempt.wait(case.patience.grace_s)

    return act


def graceful(case: Case, *names: str, point: Point | None = None, saved: bool = False, fresh: bool = True) -> None:
    """Interrupt by signals; the launcher is to end with 42."""
    code = interrupt(case, send(case, *names), point, saved, fresh)
    if code != exit_codes.RESUMABLE:
        text = f"ended with {code} on SIG{names[0]}, which counts as a crash: {case.reason()}"
        raise Trouble(text, HANDLER_ADVICE)


def one_signal(case: Case) -> None:
    """TERM, USR1, USR2 or INT."""
    graceful(case, case.fault)
    case.to_the_end()


def double(case: Case) -> None:
    """TERM, then USR1 and TERM again, within the save."""
    graceful(case, "TERM", "USR1", "TERM")
    case.to_the_end()


def kill(case: Case) -> None:
    """SIGKILL to the trainer and its processes."""

    def act(attempt: Attempt) -> int | None:
        attempt.kill_trainer()
        return attempt.wait(case.patience.grace_s)

    interrupt(case, act)
    case.to_the_end()


def truncate(case: Case) -> None:
    """last.pt loses its second half while nothing runs."""
    if case.subject.builtin:
        _twice_saved(case)
    else:
        graceful(case, "TERM")
        if not case.paths.last.is_file():
            graceful(case, "TERM", saved=True)
    size = case.paths.last.stat().st_size
    os.truncate(case.paths.last, size // 2)
    case.happened.append(f"last.pt cut to {size // 2} bytes")
    rejected = not case.subject.builtin
    try:
        case.to_the_end()
    except Trouble as trouble:
        if case.subject.builtin:
            raise
        raise Noted(f"a truncated last.pt ends it: {trouble}; {CATCH_ADVICE}") from None
    rejected = rejected or any(event.get("event") == "checkpoint_rejected" for event in read_events(case.paths))
    if not rejected:
        raise Trouble("took the truncated last.pt without a word", CATCH_ADVICE)


def _twice_saved(case: Case) -> None:
    """Interrupt until there are last.pt and previous.pt."""
    point = case.point
    while True:
        graceful(case, "TERM", point=point.earlier())
        if case.paths.previous.is_file():
            return
        try:
            return graceful(case, "TERM", point=point.later(case.whole.scale), fresh=False)
        except TooShort:
            if point == point.earlier():
                raise
            point = point.earlier()


def full_disk(case: Case) -> None:
    """No room for the next save; then room again."""
    whole = case.whole
    case.disk = disk = small_disk(case.home / "disk", whole.run_bytes, whole.last_bytes)
    case.paths = RunPaths(case.home / "disk" / "run")
    patience = min(max(2.0, 2 * whole.scale.seconds / (whole.scale.saves + 1)), _FULL_WAIT_S)

    def act(attempt: Attempt) -> int | None:
        attempt.signal_trainer(signal.SIGSTOP)  # or it may end while a slow machine fills the disk
        try:
            disk.fill(attempt.trainer(), whole.last_bytes)
            case.about_to_interrupt(attempt)
            attempt.signal_trainer(signal.SIGCONT)
            code = attempt.wait(patience)
            return code if code is not None else send(case, "TERM")(attempt)
        finally:
            disk.free()

    code = interrupt(case, act)
    case.happened[-1] += f" with {code}, {disk.name}"
    if case.paths.last.is_file() and readable(whole.paths.last) and not readable(case.paths.last):
        raise Trouble(
            "a full disk left a torn last.pt", "write beside it, fsync, then os.replace; on an error remove it"
        )
    case.to_the_end()


def double_start(case: Case) -> None:
    """Two launchers at once."""
    case.fresh()
    other_home = Path(f"{case.home}.second")
    with (
        Gauge(case.paths) as second_gauge,
        case.attempt() as first,
        Attempt(case.subject, case.paths, second_gauge, other_home) as second,
    ):
        codes = [attempt.wait(case.patience.attempt_s) for attempt in (first, second)]
        said = [attempt.said().strip().splitlines()[-1:] for attempt in (first, second)]
    shutil.rmtree(other_home, ignore_errors=True)
    case.lost = "nothing"
    if sorted(map(str, codes)) == ["0", "45"]:
        loser = said[codes.index(exit_codes.LEASE_HELD)]
        case.happened.append(f"one trained, the other ended with 45: {' '.join(loser)}")
    elif codes == [0, 0] and case.attempts() == 1:
        case.happened.append("one trained, the other came too late to find it unfinished")
    else:
        raise Trouble(f"the launchers ended with {codes[0]} and {codes[1]}, one 0 and one 45 were expected")


FAULTS: dict[str, Callable[[Case], None]] = {
    "TERM": one_signal,
    "USR1": one_signal,
    "USR2": one_signal,
    "INT": one_signal,
    "KILL": kill,
    "DOUBLE": double,
    "TRUNCATE": truncate,
    "FULL_DISK": full_disk,
    "DOUBLE_START": double_start,
}
USUAL = ("TERM", "USR1", "KILL", "DOUBLE", "TRUNCATE", "FULL_DISK", "DOUBLE_START")
WITHOUT_POINT = ("DOUBLE_START",)
"""Not tied to a place in the run."""

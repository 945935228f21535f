"""Exit codes in words: Slurm's N:M, a shell's 128+signal, and the numbers of this project."""

import signal

from unbroken import exit_codes

_OWN = {
    exit_codes.COMPLETED: "ended normally",
    exit_codes.FAILED: "ended with an error",
    exit_codes.USAGE: "was called wrongly",
    exit_codes.RESUMABLE: "its state is saved, it is to be started again",
    exit_codes.GAVE_UP: "gave up: the budget of restarts is used, or nothing advanced any more",
    exit_codes.IDENTITY_MISMATCH: "refused: the run directory belongs to another setting",
    exit_codes.LEASE_HELD: "refused: another live trainer holds the run directory",
}
_SHELL = {
    126: "the command is there and cannot be executed",
    127: "the command was not found",
}
_OUT_OF_MEMORY = 125
"""Slurm's own "signal" for a step that the kernel killed for memory."""
_SIGNALS = {
    signal.SIGKILL: "killed outright: by the kernel for memory, by Slurm after the grace time, or by a person",
    signal.SIGTERM: "asked to end: preemption, time limit or scancel",
    signal.SIGINT: "interrupted from a keyboard",
    signal.SIGUSR1: "warned ahead of the time limit, with no handler for it",
    signal.SIGUSR2: "warned of preemption, with no handler for it",
    signal.SIGSEGV: "touched memory that is not its own: a fault in compiled code",
    signal.SIGBUS: "lost a page of memory: often a full /dev/shm (DataLoader workers) or a truncated mapped file",
    signal.SIGABRT: "aborted itself: often a failed assertion in compiled code or a communication timeout",
    signal.SIGXCPU: "used more CPU time than its limit",
    signal.SIGXFSZ: "wrote a larger file than its limit",
    signal.SIGPIPE: "wrote to something that no longer reads",
    signal.SIGHUP: "lost its terminal or session",
}


def signal_name(number: int) -> str:
    """``9`` -> ``SIGKILL``; an unknown number -> ``signal 77``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_in_words(number: int) -> str:
    """``SIGKILL (killed outright: ...)``."""
    if number == _OUT_OF_MEMORY:
        return "out of memory (Slurm's number 125)"
    try:
        meaning = _SIGNALS.get(signal.Signals(number))
    except ValueError:
        meaning = None
    return f"{signal_name(number)} ({meaning})" if meaning else signal_name(number)


def code_in_words(code: int) -> str:
    """One exit code, as a process or a shell gives it; negative where subprocess reports a signal."""
    if code < 0:
        return f"ended by {signal_in_words(-code)}"
    if code in _OWN:
        return _OWN[code]
    if code in _SHELL:
        return _SHELL[code]
    if 128 < code < 128 + 65:
        return f"ended by {signal_in_words(code - 128)}"
    return "ended with an error of its own"


def pair_in_words(code: int, number: int) -> str:
    """Slurm's ``ExitCode=N:M``: N is the exit code, M the signal that ended it."""
    if number:
        return f"{code}:{number} = ended by {signal_in_words(number)}"
    return f"{code}:{number} = {code_in_words(code)}"


def is_out_of_memory(code: int, number: int) -> bool:
    """Whether ``N:M`` is Slurm's mark for memory. SIGKILL alone (0:9, 137:0) is no proof."""
    return number == _OUT_OF_MEMORY


def signal_of(code: int, number: int = 0) -> int:
    """The signal behind an end, whichever way it is written: M, 128+M, or -M; 0 where there was none."""
    if number and number != _OUT_OF_MEMORY:
        return number
    if code < 0:
        return -code
    return code - 128 if 128 < code < 128 + 65 else 0

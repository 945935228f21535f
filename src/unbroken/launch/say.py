"""The launcher's own messages: plain lines on stderr and in the attempt's log."""

import contextlib
import os
from pathlib import Path

_log: list[int] = []


def log_to(descriptor: int | None) -> None:
    """Copy every later message into this file too."""
    _log[:] = [] if descriptor is None else [descriptor]


def say(message: str) -> None:
    """Write a message, each of its lines marked; a full disk or a closed pipe loses it and nothing else."""
    text = "".join(f"unbroken: {line}\n" for line in message.splitlines() or [""]).encode(errors="replace")
    for descriptor in (2, *_log):
        with contextlib.suppress(OSError):
            os.write(descriptor, text)


def last_lines(log: Path, count: int = 15, most_bytes: int = 8192) -> list[str]:
    """The end of a log as text, whatever bytes it holds; the launcher's own lines left out."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most_bytes))
            return lines_of(file.read())[-count:]
    except OSError:
        return []


def lines_of(output: bytes) -> list[str]:
    """The lines of a trainer's output that are not the launcher's."""
    text = output.decode(errors="replace")
    lines = [line.rstrip() for line in text.replace("\r", "\n").split("\n")]
    return [line for line in lines if line and not line.startswith("unbroken: ")]

"""The expanded collections, remembered beside the runs: checking them takes longer than reading thousands of runs."""

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import unbroken

NAME = ".collections.json"
"""In the runs directory. Safe to delete; never read by anything that trains."""


def remembered(path: str) -> dict[str, Any] | None:
    """What was remembered, if no file that it came from, nor our own code, has changed since; else None."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        fresh = found["code"] == _code() and all(_stamp(name) == stamp for name, stamp in found["files"])
        return found["known"] if fresh else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(path: Path, files: Iterable[Path], known: dict[str, Any]) -> None:
    """Write it for the next call; a directory that cannot be written costs time, nothing else."""
    from unbroken.run_dir.files import write_json

    with contextlib.suppress(OSError):
        stamps = [[str(file), _stamp(str(file))] for file in files]
        write_json(path, {"code": _code(), "files": stamps, "known": known}, durable=False)


def _stamp(name: str) -> list[int]:
    """Changes with every new content: time to the nanosecond, size, inode."""
    stat = os.stat(name)
    return [stat.st_mtime_ns, stat.st_size, stat.st_ino]


def _code() -> list[Any]:
    """Changes when the rules of expansion may have changed."""
    with os.scandir(os.path.join(os.path.dirname(unbroken.__file__), "collection")) as entries:
        newest = max(entry.stat().st_mtime_ns for entry in entries if entry.name.endswith(".py"))
    return [unbroken.__version__, newest]

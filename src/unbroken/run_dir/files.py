"""Files that are complete or absent: written beside, flushed, renamed."""

import contextlib
import itertools
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unbroken.errors import RunDirectoryError


def utc_now() -> str:
    """The time as ISO 8601 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fsync_directory(directory: Path) -> None:
    """Make a rename in ``directory`` survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: bytes | str, durable: bool = True) -> None:
    """Replace ``path`` by ``content``; a reader sees the old file or the new one, never a part.

    Args:
        durable: also wait until the disk has it. Status files of a live run do without.

    Raises:
        OSError: no space, no permission; the old file is untouched and nothing is left beside it.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    if durable:
        fsync_directory(path.parent)


def dump_json(value: Any) -> bytes:
    """``value`` as readable JSON. Keys keep their order."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write_json(path: Path, value: Any, durable: bool = True) -> None:
    """Write ``value`` as readable JSON, atomically."""
    write_atomic(path, dump_json(value), durable)


def free_path(name: Callable[[int], Path]) -> Path:
    """The first of name(1), name(2), ... that is not there yet."""
    return next(path for number in itertools.count(1) if not (path := name(number)).exists())


def read_json(path: Path) -> Any:
    """The JSON value of ``path``, or None when there is no such file.

    Raises:
        RunDirectoryError: the file is there and is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, UnicodeDecodeError) as error:
        raise RunDirectoryError(f"{path} is not JSON ({error}): move it away to go on without it") from error

"""Is there room for the checkpoints? Asked before training, not at the first save hours later."""

import contextlib
import ctypes
import errno
import os
from pathlib import Path

from unbroken.errors import CheckpointError

FULL = (errno.ENOSPC, errno.EDQUOT)


def size_text(count: int) -> str:
    """A number of bytes for a person: 1.5 GB."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write there, as the file system says (a quota it may not know)."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def require_space(folder: Path, checkpoint_bytes: int, copies: int) -> None:
    """Refuse to start a training that could not save.

    Args:
        checkpoint_bytes: size of one checkpoint.
        copies: how many more of them must fit: during a save there are three (the new one, last.pt, previous.pt).

    Raises:
        CheckpointError: with the needed and the free bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = checkpoint_bytes * copies, free_bytes(folder)
    if needed > free:
        raise CheckpointError(
            f"{folder} has {size_text(free)} ({free} bytes) free and the checkpoints of this run need "
            f"{size_text(needed)} ({needed} bytes, {copies} files of {size_text(checkpoint_bytes)}): free some there, "
            "or let the run directory lie on another disk; nothing has been trained"
        )
    trouble = _reserve(folder / f".space.{os.getpid()}.tmp", needed)
    if trouble is not None:
        raise CheckpointError(
            f"{folder} shows {size_text(free)} free but does not take the {size_text(needed)} ({needed} bytes) that "
            f"the checkpoints of this run need ({os.strerror(trouble)}; a quota?): free some space there; "
            "nothing has been trained"
        )


def _reserve(path: Path, size: int) -> int | None:
    """The error number with which the disk refuses ``size`` bytes, if it says so without writing them."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    except OSError as error:
        return error.errno if error.errno in FULL else None
    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
        if call is None:
            return None
        failed = call(descriptor, 0, ctypes.c_int64(0), ctypes.c_int64(size)) != 0
        return ctypes.get_errno() if failed and ctypes.get_errno() in FULL else None
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink()

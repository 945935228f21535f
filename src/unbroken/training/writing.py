"""A file that is hashed while it is written, past the page cache where the file system allows it.

O_DIRECT saves a copy through the kernel and keeps the node's memory for the trainers; the hash of a chunk is made in
another thread while the disk takes the chunk, so it costs next to nothing.
"""

import errno
import fcntl
import hashlib
import mmap
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

CHUNK = 8 << 20
"""Bytes written at once; a multiple of every block size."""
_BLOCK = 4096
_NO_DIRECT = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


class HashedFile:
    """Open for writing, from the start to the end, once. ``finish`` makes it durable."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o666)
        self._direct = self._set_direct(True)
        self._memory = mmap.mmap(-1, CHUNK)  # page-aligned, as O_DIRECT wants it
        self._view = memoryview(self._memory)
        self._buffer = np.frombuffer(self._memory, dtype=np.uint8)
        self._filled = 0
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Of everything written, in hex."""
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        """Take all of ``data``; raises OSError where the disk does not."""
        source = np.frombuffer(data, dtype=np.uint8)
        taken = 0
        while taken < len(source):
            count = min(CHUNK - self._filled, len(source) - taken)
            # NumPy lets other threads run meanwhile: training goes on while a background save copies.
            np.copyto(self._buffer[self._filled : self._filled + count], source[taken : taken + count])
            self._filled += count
            taken += count
            if self._filled == CHUNK:
                self._put(CHUNK)
        self.size += taken
        return taken

    def flush(self) -> None:
        """For torch.save; nothing is to be done before ``finish``."""

    def finish(self) -> None:
        """Write what is left, wait until the disk has all of it. Raises OSError."""
        whole = self._filled // _BLOCK * _BLOCK
        if whole:
            self._put(whole, self._filled)
        if self._filled > whole:
            if self._direct:
                self._direct = self._set_direct(False)
            rest = self._view[whole : self._filled]
            self._digest.update(rest)
            self._write_all(rest)
        os.fsync(self._file)

    def _put(self, count: int, keep: int = 0) -> None:
        """Hash and write the first ``count`` bytes of the buffer, side by side."""
        chunk = self._view[:count]
        # A thread of its own each time: an executor takes no work any more when the interpreter is ending.
        hashing = threading.Thread(target=self._digest.update, args=(chunk,), daemon=True)
        hashing.start()
        try:
            self._write_all(chunk)
        finally:
            hashing.join()
        self._filled = keep

    def _write_all(self, chunk: memoryview) -> None:
        done = 0
        while done < len(chunk):
            try:
                done += os.write(self._file, chunk[done:])
            except OSError as error:
                if not self._direct or error.errno not in _NO_DIRECT:
                    raise
                self._direct = self._set_direct(False)

    def _set_direct(self, wanted: bool) -> bool:
        """Whether writes go past the page cache from here on."""
        direct = getattr(os, "O_DIRECT", 0)
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
        try:
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags | direct if wanted else flags & ~direct)
        except OSError:
            return False
        return wanted and bool(direct)

    def __enter__(self) -> "HashedFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def write_payload(path: Path, payload: dict[str, Any]) -> tuple[int, str]:
    """Save ``payload`` as ``torch.load(weights_only=True)`` reads it; (bytes, SHA-256 in hex).

    Raises:
        OSError: the disk does not take it.
    """
    with HashedFile(path) as file:
        before = torch.serialization.get_crc32_options()
        torch.serialization.set_crc32_options(False)  # the sidecar's SHA-256 says more, and this one is slow
        try:
            torch.save(payload, file)  # type: ignore[arg-type]
        except RuntimeError as error:  # torch wraps an OSError of the file in its own writer's error
            cause = error.__context__ if isinstance(error.__context__, OSError) else None
            raise cause or error from error
        finally:
            torch.serialization.set_crc32_options(before)
        file.finish()
        return file.size, file.sha256

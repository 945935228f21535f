"""A file that is hashed while it is written, past the page cache where the file system allows it.

Three things at once: this thread fills a buffer, one writes the buffer before it, one hashes it. O_DIRECT saves a copy
through the kernel and keeps the node's memory for the trainers.
"""

import errno
import fcntl
import hashlib
import mmap
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

CHUNK = 1 << 19
"""Bytes written at once; a multiple of every block size. Longer ones leave a small payload little side by side."""
BUFFERS = 4
LONG = 1 << 14
_BLOCK = 4096
_NO_DIRECT = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


class _Buffer:
    """Memory for one chunk, on a page boundary as O_DIRECT wants it."""

    def __init__(self) -> None:
        memory = mmap.mmap(-1, CHUNK)
        self.view = memoryview(memory)
        self.array = np.frombuffer(memory, dtype=np.uint8)
        self.filled = 0
        self.users = threading.Semaphore(2)
        """The thread that writes and the one that hashes; both are free of it when it may be filled."""


def _copy(buffer: _Buffer, piece: memoryview) -> None:
    """Append to a buffer. A long piece by NumPy, which lets the training go on meanwhile; a short one is quicker so."""
    first, end = buffer.filled, buffer.filled + len(piece)
    if len(piece) < LONG:
        buffer.view[first:end] = piece
    else:
        np.copyto(buffer.array[first:end], np.frombuffer(piece, dtype=np.uint8))


class _Worker(threading.Thread):
    """Does one thing with each buffer, in order. After an error it takes them and does nothing."""

    def __init__(self, name: str, action: Callable[[memoryview], Any]) -> None:
        super().__init__(name=f"checkpoint-{name}", daemon=True)
        self._action = action
        self._buffers: queue.SimpleQueue[_Buffer | None] = queue.SimpleQueue()
        self.error: BaseException | None = None
        self.start()

    def take(self, buffer: _Buffer | None) -> None:
        """One more buffer to work on; None ends the thread."""
        self._buffers.put(buffer)

    def run(self) -> None:
        while (buffer := self._buffers.get()) is not None:
            try:
                if self.error is None:
                    self._action(buffer.view[: buffer.filled])
            except BaseException as error:  # raised by the thread that saves
                self.error = error
            buffer.users.release()


class HashedFile:
    """Open for writing, from the start to the end, once. ``finish`` hands over all of it, ``sync`` makes it durable."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o666)
        self._direct = self._set_direct(True)
        self._digest = hashlib.sha256()
        self._workers = (_Worker("writer", self._write_all), _Worker("hasher", self._digest.update))
        self._buffers = [_Buffer()]
        self._turn = 0
        self._current = self._free()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Of everything written, in hex; after ``finish``."""
        return self._digest.hexdigest()

    def write(self, data: Any) -> int:
        """Take all of ``data``; raises OSError where the disk does not take what came before."""
        source = memoryview(data).cast("B")
        taken = 0
        while taken < len(source):
            buffer = self._current
            count = min(CHUNK - buffer.filled, len(source) - taken)
            _copy(buffer, source[taken : taken + count])
            buffer.filled += count
            taken += count
            if buffer.filled == CHUNK:
                self._hand_over()
        self.size += taken
        return taken

    def flush(self) -> None:
        """For torch.save; nothing is to be done before ``finish``."""

    def finish(self) -> None:
        """Write what is left. Raises OSError."""
        self._hand_over()
        for worker in self._workers:
            worker.take(None)
            worker.join()
        self._raise()

    def sync(self) -> None:
        """Wait until the disk has it. Raises OSError."""
        os.fsync(self._file)

    def _hand_over(self) -> None:
        """The current buffer to both workers, and the next one to fill."""
        for worker in self._workers:
            worker.take(self._current)
        self._current = self._free()
        self._raise()

    def _free(self) -> _Buffer:
        """A buffer that nobody uses any more."""
        if self._turn == len(self._buffers) < BUFFERS:
            self._buffers.append(_Buffer())
        buffer = self._buffers[self._turn % BUFFERS]
        self._turn += 1
        for _ in range(2):
            buffer.users.acquire()
        buffer.filled = 0
        return buffer

    def _raise(self) -> None:
        for worker in self._workers:
            if worker.error is not None:
                raise worker.error

    def _write_all(self, chunk: memoryview) -> None:
        """Whole blocks past the page cache, the rest of the last chunk through it."""
        whole = len(chunk) // _BLOCK * _BLOCK
        self._put(chunk[:whole])
        if whole < len(chunk):
            self._direct = self._direct and self._set_direct(False)
            self._put(chunk[whole:])

    def _put(self, chunk: memoryview) -> None:
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
        for worker in self._workers:
            worker.take(None)
            worker.join()
        os.close(self._file)


def write_payload(path: Path, payload: dict[str, Any], before_sync: Callable[[int, str], None]) -> None:
    """Save ``payload`` durably, as ``torch.load(weights_only=True)`` reads it.

    Args:
        before_sync: gets size and SHA-256 (hex) when all is written; what it makes durable goes with the same wait.

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
        before_sync(file.size, file.sha256)
        file.sync()

"""Periodic saves that training does not wait for: copied at the boundary, written by a thread through the same stages.

As safe as a synchronous save because nothing else changes: the file, the sidecars and the renames are those of
``CheckpointStore.save``, one save at a time, and what the thread could not write is raised at the next boundary. The
save before a stop and the end of a run wait for the disk.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from unbroken.collection.run_dir import RunPaths
from unbroken.training.checkpoint import CheckpointStore
from unbroken.training.retention import Retention


class Buffers:
    """Memory for a copy of one payload, kept from save to save; pinned for what lies on a GPU."""

    def __init__(self) -> None:
        self._kept: list[torch.UntypedStorage] = []
        self._copied: dict[int, torch.UntypedStorage] = {}

    def copy(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload with every tensor in memory of ours; tensors that shared their memory share it again."""
        self._copied = {}
        copied: dict[str, Any] = self._value(payload)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        return copied

    def _value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, Mapping):
            items = {key: self._value(item) for key, item in value.items()}
            if type(value) is dict:
                return items
            kind: Any = type(value)
            made = kind(items)
            if hasattr(value, "_metadata"):
                made._metadata = value._metadata
            return made
        if type(value) in (list, tuple, set):
            return type(value)(self._value(item) for item in value)
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        kind = type(tensor)
        plain = tensor.detach()
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            made = plain.cpu().clone()
        else:
            memory = self._storage(plain.untyped_storage())
            place = plain.storage_offset(), plain.size(), plain.stride()
            made = torch.empty(0, dtype=plain.dtype).set_(memory, *place)
        if kind is torch.nn.Parameter:
            return torch.nn.Parameter(made, tensor.requires_grad)
        return made.requires_grad_(tensor.requires_grad)

    def _storage(self, source: torch.UntypedStorage) -> torch.UntypedStorage:
        size, key = source.nbytes(), source.data_ptr()
        if size == 0:
            return torch.empty(0).untyped_storage()
        if key in self._copied:
            return self._copied[key]
        number = len(self._copied)
        if number == len(self._kept) or self._kept[number].nbytes() != size:
            pinned = source.device.type == "cuda"
            fresh = torch.empty(size, dtype=torch.uint8, pin_memory=pinned).untyped_storage()
            self._kept[number : number + 1] = [fresh]
        target = self._copied[key] = self._kept[number]
        if source.device.type == "cpu":  # not by torch: its threads wait for each other at every tensor
            ctypes.memmove(target.data_ptr(), key, size)
        else:
            _bytes(target).copy_(_bytes(source), non_blocking=True)
        return target


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


@dataclass(frozen=True)
class Written:
    """A background save that the disk has."""

    sidecar: dict[str, Any]
    seconds: float
    """From the boundary to the disk."""


class _Write(threading.Thread):
    """One save. Not a daemon: a process that ends by itself ends after it."""

    def __init__(self, save: Callable[[], dict[str, Any]], began: float) -> None:
        super().__init__(name="checkpoint-write", daemon=False)
        self._save, self._began = save, began
        self.written: Written | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            sidecar = self._save()
            self.written = Written(sidecar, time.monotonic() - self._began)
        except BaseException as error:  # raised again at the next boundary
            self.error = error


class AsyncStore(CheckpointStore):
    """A store that can also write behind. ``begin`` copies and returns; ``finish`` waits."""

    def __init__(self, paths: RunPaths, retention: Retention | None = None) -> None:
        super().__init__(paths, retention)
        self._buffers = Buffers()
        self._write: _Write | None = None

    def begin(self, payload: dict[str, Any], note: dict[str, Any], before: Callable[[], None] = lambda: None) -> None:
        """Copy ``payload`` and write it in the background, after ``before`` and after the save before it.

        Raises:
            CheckpointError: the save before it failed; this one is not begun.
        """
        began = time.monotonic()
        self.finish()
        copied = self._buffers.copy(payload)

        def save() -> dict[str, Any]:
            try:
                before()
            except OSError as error:
                raise self._failed(error) from error
            return CheckpointStore.save(self, copied, note)

        self._write = _Write(save, began)
        self._write.start()

    def save(self, payload: dict[str, Any], note: dict[str, Any]) -> dict[str, Any]:
        """Save now, durably, after what is being written. An error of that one is moot: this save is the newer one."""
        if self._write is not None:
            self._write.join()
            self._write = None
        return super().save(payload, note)

    @property
    def ended(self) -> bool:
        """Whether a background save is over and ``finish`` will not wait."""
        return self._write is not None and not self._write.is_alive()

    @property
    def broken(self) -> bool:
        """Whether a background save has failed and ``finish`` will raise."""
        return self._write is not None and self._write.error is not None

    def flush(self) -> None:
        """As ``finish``."""
        self.finish()

    def finish(self) -> Written | None:
        """Wait until the disk has everything; the background save that this ends, if there is one.

        Raises:
            CheckpointError: the disk did not take it; the pair before is intact.
        """
        write, self._write = self._write, None
        if write is None:
            return None
        write.join()
        if write.error is not None:
            raise write.error
        return write.written

"""How far a run has come, told from outside by looking at its files again and again."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths

POLL_S = 0.004
_TAIL = 4096
_Stamp = tuple[int, int, int]
"""Inode, modification time, size."""


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Gauge:
    """Steps, saves and the way of saving of one run directory. Call ``look`` often, ``close`` at the end."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.step: int | None = None
        """The furthest that run_status.json, last.json or metrics.csv has told."""
        self.total: int | None = None
        self.first_step = 0
        """Where the run stood before: what an attempt has done itself is beyond it."""
        self.saves = 0
        """How often last.pt was seen to change."""
        self.in_place = False
        """A file that already was last.pt changed: a reader, or a kill, meets half a checkpoint."""
        self._stamps: dict[Path, _Stamp | None] = {}
        self._open: tuple[int, tuple[int, int]] | None = None
        """The last.pt seen last, held open so that its inode is not given to another file."""

    def __enter__(self) -> "Gauge":
        self.look()
        self.first_step = self.step or 0
        return self

    def __exit__(self, *_: object) -> None:
        self.look()
        self.close()

    def close(self) -> None:
        if self._open is not None:
            os.close(self._open[0])
            self._open = None

    def look(self) -> None:
        """One reading; only what has changed since the last is read again."""
        if self._changed(self.paths.last):
            self.saves += 1
        self._check_in_place()
        if self._changed(self.paths.status):
            value = self._json(self.paths.status)
            self._further(value.get("global_step") or None)
            self.total = value["total_steps"] if type(value.get("total_steps")) is int else self.total
        sidecar = RunPaths.sidecar(self.paths.last)
        if self._changed(sidecar):
            value = self._json(sidecar)
            self._further(next((value[key] for key in ("global_step", "step") if type(value.get(key)) is int), None))
        if self._changed(self.paths.metrics):
            self._further(last_step(self.paths.metrics))

    def _changed(self, path: Path) -> bool:
        stamp = _stamp(path)
        before = self._stamps.get(path)
        self._stamps[path] = stamp
        return stamp is not None and stamp != before

    def _further(self, step: object) -> None:
        if type(step) is int and step > (self.step or 0):
            self.step = step

    @staticmethod
    def _json(path: Path) -> dict[str, Any]:
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def _check_in_place(self) -> None:
        if self._open is not None:
            now = os.fstat(self._open[0])
            self.in_place |= (now.st_mtime_ns, now.st_size) != self._open[1]
        stamp = self._stamps.get(self.paths.last)
        if stamp is None or (self._open is not None and os.fstat(self._open[0]).st_ino == stamp[0]):
            if self._open is not None:
                now = os.fstat(self._open[0])
                self._open = (self._open[0], (now.st_mtime_ns, now.st_size))
            return
        self.close()
        with contextlib.suppress(OSError):
            descriptor = os.open(self.paths.last, os.O_RDONLY | os.O_CLOEXEC)
            found = os.fstat(descriptor)
            self._open = (descriptor, (found.st_mtime_ns, found.st_size))


def last_step(metrics: Path) -> int | None:
    """The step of the last whole row of a metrics.csv; None where there is none or no column `step`."""
    try:
        with open(metrics, "rb") as file:
            columns = file.readline().decode("utf-8", "replace").strip().split(",")
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - _TAIL))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return None
    if "step" not in columns:
        return None
    for line in reversed(lines):
        fields = line.decode("utf-8", "replace").strip().split(",")
        if line.endswith(b"\n") and len(fields) == len(columns):
            text = fields[columns.index("step")]
            return int(text) if text.isdigit() else None
    return None

"""last.pt and previous.pt: complete or absent at every instant, checked by hash, never deleted when bad.

A save goes through STAGES. Whatever stage a kill hits, the newest complete payload is found again: a payload counts as
intact when its SHA-256 stands in any sidecar of the folder, so a kill between the two last renames loses nothing.
"""

import contextlib
import errno
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import CheckpointError
from unbroken.run_dir.files import free_path, fsync_directory, utc_now
from unbroken.training.reading import Unreadable, read_payload, read_sidecars
from unbroken.training.retention import Retention
from unbroken.training.space import FULL
from unbroken.training.writing import write_payload

SCHEMA_VERSION = 1
STAGES = (
    "start", "payload", "payload written", "sidecar written", "previous linked", "previous replaced",
    "previous sidecar replaced", "last replaced", "last sidecar replaced", "end",
)  # fmt: skip
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def _stage(name: str) -> None:
    """Called on entering each of STAGES; a test replaces it to end the process there."""


@dataclass(frozen=True)
class Found:
    """The checkpoint to go on from, and the ones that had to be passed over."""

    payload: dict[str, Any]
    path: Path
    sidecar: dict[str, Any] | None
    passed_over: list[tuple[Path, str]] = field(default_factory=list)
    """(file, why) of each newer one that cannot be read."""


class CheckpointStore:
    """The checkpoints of one run directory. One process writes, any may read."""

    def __init__(self, paths: RunPaths, retention: Retention | None = None) -> None:
        self.paths = paths
        self.folder = paths.checkpoints
        self.retention = retention or Retention()

    def save(self, payload: dict[str, Any], note: dict[str, Any]) -> dict[str, Any]:
        """Make ``payload`` the new last.pt and the old one previous.pt; returns the sidecar.

        Args:
            note: what the sidecar is to say besides size and hash: global_step, epoch, batch, metric ...

        Raises:
            CheckpointError: no space, no quota, no permission. The pair before is intact, a later save may go on.
        """
        last, previous = self.paths.last, self.paths.previous
        fresh, fresh_note = last.with_name("last.pt.new"), last.with_name("last.json.new")
        renamed = False
        try:
            _stage("start")
            self.folder.mkdir(parents=True, exist_ok=True)
            sidecar = _write_pair(fresh, fresh_note, payload, note)
            _stage("sidecar written")
            self._rotate(last, previous)
            os.replace(fresh, last)
            renamed = True
            _stage("last replaced")
            os.replace(fresh_note, RunPaths.sidecar(last))
            _stage("last sidecar replaced")
            fsync_directory(self.folder)
            self.retention.apply(last, sidecar)
            _stage("end")
        except OSError as error:
            for leftover in [] if renamed else [fresh, fresh_note]:
                with contextlib.suppress(OSError):
                    leftover.unlink()
            raise self._failed(error) from error
        return sidecar

    def _rotate(self, last: Path, previous: Path) -> None:
        """previous.pt becomes another name of last.pt (a rename where the file system has no links)."""
        for source, target, stage in (
            (last, previous, "previous replaced"),
            (RunPaths.sidecar(last), RunPaths.sidecar(previous), "previous sidecar replaced"),
        ):
            if not source.exists():
                continue
            link = target.with_name(target.name + ".new")
            link.unlink(missing_ok=True)
            try:
                os.link(source, link)
                _stage("previous linked")
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                link = source
            os.replace(link, target)
            if link != source:  # a rename between two names of one file does nothing
                link.unlink(missing_ok=True)
            _stage(stage)

    def _failed(self, error: OSError) -> CheckpointError:
        what = (
            "no space" if error.errno == errno.ENOSPC else "the quota is used up" if error.errno == errno.EDQUOT else ""
        )
        reason = f"{what} ({error.strerror})" if what else str(error)
        kept = "the checkpoints there are as good as before" if self.paths.last.exists() else "nothing is saved yet"
        fix = "free some space" if error.errno in FULL else "mend that"
        return CheckpointError(
            f"cannot save a checkpoint in {self.folder}: {reason}; {kept}: {fix}, then start the run again"
        )

    def flush(self) -> None:
        """Wait until everything saved is on the disk; here it is already. A store that writes behind waits."""

    def exists(self) -> bool:
        """Whether there is anything to go on from, readable or not."""
        return bool(self.candidates())

    def candidates(self) -> list[Path]:
        """The checkpoints that are there, newest first."""
        return [
            path for path in (self.paths.last, self.paths.previous, *self.retention.kept(self.folder)) if path.exists()
        ]

    def find(self) -> Found | None:
        """The newest checkpoint that is whole, or None where there is none at all. Changes nothing on the disk.

        Raises:
            CheckpointError: there are some and none can be read.
        """
        sidecars = read_sidecars(self.folder)
        passed_over: list[tuple[Path, str]] = []
        for path in self.candidates():
            try:
                payload, sidecar = read_payload(path, sidecars)
                self._require_whole(payload, sidecar)
            except Unreadable as why:
                passed_over.append((path, str(why)))
                continue
            return Found(payload, path, sidecar, passed_over)
        if not passed_over:
            return None
        listed = "; ".join(f"{path.name} {why}" for path, why in passed_over)
        raise CheckpointError(
            f"none of the checkpoints in {self.folder} can be read: {listed}. Nothing has been changed: put a good "
            "copy there, or move that folder away to train from the beginning"
        )

    def _require_whole(self, payload: dict[str, Any], sidecar: dict[str, Any] | None) -> None:
        """For a store whose payload names further files: raises Unreadable unless they are as they were saved."""

    def settle(self, found: Found) -> list[tuple[Path, Path, str]]:
        """Act on what ``find`` saw: set unreadable files aside, mend a sidecar that a kill left behind.

        Returns:
            (old name, new name, why) of each file set aside.
        """
        moved = []
        for path, why in found.passed_over:
            aside = _free_name(path)
            os.replace(path, aside)
            if RunPaths.sidecar(path).exists():
                os.replace(RunPaths.sidecar(path), aside.with_suffix(".json"))
            moved.append((path, aside, why))
        if found.sidecar is not None:
            self._mend(found.path, found.sidecar)
        if moved:
            fsync_directory(self.folder)
        return moved

    def _mend(self, path: Path, sidecar: dict[str, Any]) -> None:
        own = RunPaths.sidecar(path)
        try:
            if json.loads(own.read_bytes()) == sidecar:
                return
        except (OSError, ValueError):
            pass
        with contextlib.suppress(OSError):  # nice to have: the payload is intact without it
            beside = own.with_name(own.name + ".mend")
            _write_durable(beside, (json.dumps(sidecar, indent=2) + "\n").encode())
            os.replace(beside, own)


def _write_pair(path: Path, beside: Path, payload: dict[str, Any], note: dict[str, Any]) -> dict[str, Any]:
    """The payload and its sidecar, both durable; the disk is waited for once, not twice. Returns the sidecar."""
    sidecar = {"schema_version": SCHEMA_VERSION, **note}

    def describe(size: int, digest: str) -> None:
        _stage("payload written")
        sidecar.update(bytes=size, sha256=digest, torch=str(torch.__version__), saved_at=utc_now())
        _write_durable(beside, (json.dumps(sidecar, indent=2) + "\n").encode())

    _stage("payload")
    write_payload(path, payload, describe)
    return sidecar


def _write_durable(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _free_name(path: Path) -> Path:
    return free_path(lambda number: path.with_name(f"{path.stem}.rejected-{number}.pt"))

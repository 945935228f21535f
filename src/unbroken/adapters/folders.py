"""Trainer writes a checkpoint as a folder, file after file: here last.pt says which folder is whole, and its hashes."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from unbroken.run_dir.files import free_path, fsync_directory
from unbroken.training.checkpoint import CheckpointStore, Found
from unbroken.training.reading import Unreadable, read_sidecars

Files = dict[str, list[Any]]
"""[bytes, SHA-256] of each file by its path in the folder."""


class FolderStore(CheckpointStore):
    """last.pt and previous.pt, each naming one folder ``checkpoint-<step>`` beside it."""

    prune = False
    """Remove folders that no checkpoint names any more."""

    def save(self, payload: dict[str, Any], note: dict[str, Any]) -> dict[str, Any]:
        """As the base, once the disk has the folder; the sidecar has the hashes (Trainer's files hold times)."""
        folder = self.folder / payload["folder"]
        sidecar = super().save(payload, {**note, "folder": folder.name, "files": seal(folder)})
        if self.prune:
            named = {said.get("folder") for said in read_sidecars(self.folder).values()}
            for folder in self.folder.glob("checkpoint-*"):
                if folder.name not in named:
                    shutil.rmtree(folder, ignore_errors=True)
        return sidecar

    def _require_whole(self, payload: dict[str, Any], sidecar: dict[str, Any] | None) -> None:
        folder = self.folder / payload["folder"]
        if sidecar is None:
            raise Unreadable(f"names {folder.name}, and the file with the hashes of what is in it is gone")
        for name, (size, digest) in sidecar["files"].items():
            path = folder / name
            if not path.is_file():
                raise Unreadable(f"names {folder.name}/{name}, which is not there")
            if path.stat().st_size != size or _sha256(path) != digest:
                raise Unreadable(f"names {folder.name}/{name}, which is not as it was saved")

    def settle(self, found: Found) -> list[tuple[Path, Path, str]]:
        """Also sets aside every folder beyond ``found``: torn, or a save that a kill has cut short."""
        moved = super().settle(found)
        for folder in sorted(self.folder.glob("checkpoint-*")):
            step = folder.name.removeprefix("checkpoint-")
            if step.isdigit() and int(step) > found.payload["position"]["global_step"]:
                aside = _free_name(folder)
                os.replace(folder, aside)
                moved.append((folder, aside, "is not whole"))
        return moved


def seal(folder: Path) -> Files:
    """Wait until the disk has a folder with all that is in it, and describe its files."""
    files: Files = {}
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(place, name)
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                size = os.fstat(file.fileno()).st_size
                files[str(path.relative_to(folder))] = [size, hashlib.file_digest(file, "sha256").hexdigest()]
        fsync_directory(Path(place))
    fsync_directory(folder.parent)
    return files


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _free_name(folder: Path) -> Path:
    """A name that Trainer takes for none of its checkpoints, else it would count it when it deletes old ones."""
    return free_path(lambda number: folder.with_name(f"rejected-{number}.{folder.name}"))

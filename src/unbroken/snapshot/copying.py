"""A snapshot without git: the project's files, copied."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from unbroken.snapshot.git import LARGEST_FILE

_NEVER = {"__pycache__", "node_modules"}


def copy_tree(source: Path, target: Path, without: Iterable[Path]) -> tuple[str, list[str]]:
    """Copy a project's files; returns the hash of what was copied, and what was left out for its size.

    Hidden folders, virtual environments and ``without`` are no part of it. A link stays a link; one that leads out of
    the project is made absolute.
    """
    digest = hashlib.sha256()
    left_out: list[str] = []
    for path in _files(source, {os.path.realpath(folder) for folder in without}):
        name = path.relative_to(source)
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            aim = os.readlink(path)
            inside = os.path.normpath(os.path.join(name.parent, aim))
            place.symlink_to(os.path.abspath(path.parent / aim) if inside.startswith("..") else aim)
            content = os.fsencode(aim)
        elif path.stat().st_size > LARGEST_FILE:
            left_out.append(str(name))
            continue
        else:
            shutil.copy2(path, place)
            content = place.read_bytes()
        digest.update(os.fsencode(name) + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest(), left_out


def _files(source: Path, without: set[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if _wanted(Path(folder, name), without))
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name not in links]
        for name in sorted([*files, *links]):
            path = Path(folder, name)
            if path.is_symlink() or path.is_file():
                yield path


def _wanted(folder: Path, without: set[str]) -> bool:
    if folder.name.startswith(".") or folder.name in _NEVER or (folder / "pyvenv.cfg").exists():
        return False
    return os.path.realpath(folder) not in without

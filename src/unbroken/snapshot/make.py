"""Make, restore and remove the pinned code of a collection."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unbroken.errors import RunDirectoryError
from unbroken.run_dir.files import read_json, utc_now, write_atomic, write_json
from unbroken.snapshot import git
from unbroken.snapshot.pinned import SCHEMA_VERSION, Pinned, SnapshotError, read

LARGEST_PATCH = 4 << 20
"""Bytes of the readable record of local changes."""


def ensure(home: Path, project: Path, without: Iterable[Path]) -> Pinned:
    """The pinned code, made now where there is none yet. An earlier one is kept: it is what the runs began with.

    Args:
        project: the folder that snakemake is called in.
        without: folders that are no code: runs and results.

    Raises:
        SnapshotError: it cannot be made; RunDirectoryError: what is there is unusable.
    """
    pinned = read(home)
    try:
        if pinned is None:
            return _make(home, project, list(without))
        if not pinned.workdir(home).is_dir():
            if pinned.kind != "git":
                raise SnapshotError(f"the pinned code {pinned.tree(home)} is gone: `unbroken snapshot --remove` it")
            git.add_worktree(project, pinned.tree(home), _kept_commit(project, home), _ref(home))
    except (OSError, git.GitError) as error:
        raise SnapshotError(f"the code cannot be pinned in {home}: {error}") from None
    return pinned


def remove(home: Path) -> bool:
    """Unpin: later attempts run from the project's folder. What was pinned stays on record. True if there was any."""
    there = (home / "snapshot.json").exists()
    (home / "snapshot.json").unlink(missing_ok=True)
    for tree in home.iterdir() if home.is_dir() and not home.is_symlink() else ():
        if tree.is_symlink() or not tree.is_dir():
            continue
        there = True
        project = _project_of(home / f"{tree.name}.json")
        if project is not None:
            git.remove_worktree(project, tree, _ref(home))
        shutil.rmtree(tree, ignore_errors=True)
    return there


def _project_of(record: Path) -> Path | None:
    """The project whose repository has the worktree; None for a copy."""
    try:
        value = read_json(record)
        return Path(value["project"]) if value["kind"] == "git" else None
    except (RunDirectoryError, TypeError, KeyError):
        return None


def _make(home: Path, project: Path, without: list[Path]) -> Pinned:
    from unbroken.snapshot.record import git_fingerprint

    home.mkdir(parents=True, exist_ok=True)
    repository = git.Repository.of(project)
    made: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "project": str(project.absolute())}
    made["created_at"] = utc_now()
    if repository is None or git.has_submodules(repository):
        beside = home / f"making{os.getpid()}"
        digest, left_out = _copy(project, beside, [*without, home])
        made |= {"kind": "copy", "id": f"copy{digest[:12]}", "prefix": "", "code": f"copy:{digest}"}
        made |= {"commit": repository.commit if repository else None, "changed": [], "left_out": left_out}
        target = home / made["id"]
        shutil.rmtree(target, ignore_errors=True)
        beside.rename(target)
    else:
        top = os.path.realpath(repository.top)
        inside = [os.path.relpath(os.path.realpath(folder), top) for folder in without]
        inside = [folder for folder in inside if not folder.startswith("..") and folder != "."]
        captured = git.capture(repository, without=inside)
        commit = git.commit_of(repository, captured, f"unbroken: code pinned for {home.parent.name}")
        made |= {"kind": "git", "id": f"git{commit[:12]}", "prefix": repository.prefix, "commit": repository.commit}
        made |= {"changed": list(captured.changed), "left_out": list(captured.left_out)}
        made["code"] = git_fingerprint(repository).code
        git.add_worktree(project, home / made["id"], commit, _ref(home))
        if commit != repository.commit:
            _write_patch(repository, commit, home / f"{made['id']}.patch")
    pinned = Pinned(**made)
    write_json(home / f"{pinned.id}.json", asdict(pinned))
    write_json(home / "snapshot.json", asdict(pinned))
    return pinned


def _copy(project: Path, target: Path, without: list[Path]) -> tuple[str, list[str]]:
    from unbroken.snapshot.copying import copy_tree

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return copy_tree(project, target, without)


def _write_patch(repository: git.Repository, commit: str, path: Path) -> None:
    """The local changes, readable after the worktree is gone."""
    text = git.run(repository.top, ["diff", "--no-ext-diff", "--no-textconv", repository.commit, commit])
    data = text.encode(errors="surrogateescape")
    write_atomic(path, data if len(data) <= LARGEST_PATCH else data[:LARGEST_PATCH] + b"\n... cut off here\n")


def _ref(home: Path) -> str:
    """One ref a place; a slug is a valid part of a ref's name."""
    place = hashlib.sha256(os.fsencode(os.path.abspath(home))).hexdigest()[:12]
    return f"refs/unbroken/snapshots/{home.parent.name}-{place}"


def _kept_commit(project: Path, home: Path) -> str:
    return git.run(project, ["rev-parse", "--verify", f"{_ref(home)}^{{commit}}"]).strip()

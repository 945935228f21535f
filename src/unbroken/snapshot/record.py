"""Which code an attempt runs, recorded at its start; a change since the attempt before is an event.

The launcher calls ``AttemptCode``: into the pinned code before the trainer starts, the record in a thread after it, so
that the look at a large repository delays no training.
"""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unbroken.collection.operational import parse_flag
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import UnbrokenError
from unbroken.run_dir.files import read_json, utc_now, write_json
from unbroken.snapshot.pinned import FOLDER, Pinned, SnapshotError, read

SCHEMA_VERSION = 1
FILE = "code.json"
LOOK_S = 30.0
"""So long one git command may look at the repository; after that the attempt's code stays unknown."""
FINISH_S = 5.0
LOWEST_PRIORITY = 19
MOST_FILES = 20
MOST_SCRIPT_BYTES = 16 << 20


@dataclass(frozen=True)
class Fingerprint:
    """One state of the code: equal fingerprints are equal files."""

    code: str
    """``git:<tree>`` (all of the repository but the project's config folder), ``files:<hash>`` or ``copy:<hash>``."""
    commit: str | None = None
    local_changes: tuple[str, ...] = ()
    snapshot: str | None = None
    """Id of the pinned code."""

    def __str__(self) -> str:
        name = f"commit {self.commit[:12]}" if self.commit else self.code[:18]
        changes = " with local changes" if self.local_changes else ""
        return name + changes + (" (pinned)" if self.snapshot else "")


def git_fingerprint(repository: Any, timeout: float | None = None) -> Fingerprint:
    """Of a repository's files on disk. Collections and config.yaml are no code: what they define has its own hash."""
    from unbroken.snapshot import git

    captured = git.capture(
        repository, without=[f"{repository.prefix}config"], only_code=True, keep_objects=False, timeout=timeout
    )
    return Fingerprint(f"git:{captured.tree}", repository.commit, captured.changed)


def fingerprint(folder: Path, argv: list[str], run_dir: Path) -> Fingerprint | None:
    """Of the repository around ``folder``; else of the files that the command names; None where there are none."""
    import hashlib

    from unbroken.snapshot import git

    repository = git.Repository.of(folder, LOOK_S)
    if repository is not None:
        return git_fingerprint(repository, LOOK_S)
    digest, found = hashlib.sha256(), False
    for word in argv[1:]:
        path = folder / word
        with suppress(OSError, ValueError):
            if path.is_relative_to(run_dir) or not path.is_file() or path.stat().st_size > MOST_SCRIPT_BYTES:
                continue
            digest.update(os.fsencode(word) + b"\0" + hashlib.sha256(path.read_bytes()).digest())
            found = True
    return Fingerprint(f"files:{digest.hexdigest()}") if found else None


class AttemptCode:
    """The code of one attempt, for the launcher."""

    def __init__(self, paths: RunPaths, operational: Mapping[str, Any], argv: list[str], attempt: int) -> None:
        self._paths, self._argv, self._attempt = paths, argv, attempt
        self._pin = parse_flag(operational.get("job_code_snapshot_enabled", False))
        self._pinned: Pinned | None = None
        self._folder = Path.cwd()
        self._thread: threading.Thread | None = None

    def enter(self) -> dict[str, str]:
        """Go to where the trainer is to run; returns what it needs in its environment.

        Raises:
            SnapshotError: the code is to be pinned, and what was pinned is not there.
        """
        environment = {"UNBROKEN_PROJECT_DIR": str(self._folder)}
        if not self._pin:
            return environment
        home = self._paths.root.parents[1] / FOLDER
        self._pinned = read(home)
        if self._pinned is None:
            raise SnapshotError(
                f"job_code_snapshot_enabled is on, but no code is pinned in {home}: start the run with snakemake "
                "(without --no-hooks), which pins it before the first submission"
            )
        workdir = self._pinned.workdir(home)
        try:
            os.chdir(workdir)
        except OSError as error:
            raise SnapshotError(
                f"the pinned code cannot be entered ({workdir}: {error.strerror}): call snakemake again to restore it"
            ) from None
        self._folder = Path.cwd()
        roots = [str(folder) for folder in (self._folder / "src", self._pinned.tree(home) / "src") if folder.is_dir()]
        if roots:  # an editable install would take the package from the project's folder
            before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
            environment["PYTHONPATH"] = os.pathsep.join([*dict.fromkeys(roots), *before])
        return environment

    def record(self) -> None:
        """Begin to look at the code, beside the training; not in a drill, whose scratch runs nobody reads again."""
        if os.environ.get("UNBROKEN_DRILL"):
            return
        self._thread = threading.Thread(target=self._record, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait a moment for the look to end."""
        if self._thread is not None:
            self._thread.join(FINISH_S)

    def _record(self) -> None:
        with suppress(OSError):  # on Linux a thread has a priority of its own, and its children inherit it
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        with suppress(OSError, UnbrokenError, ValueError):
            now = self._look()
            if now is not None:
                note(self._paths, self._attempt, now)

    def _look(self) -> Fingerprint | None:
        pinned = self._pinned
        if pinned is not None:
            return Fingerprint(pinned.code, pinned.commit, tuple(pinned.changed), pinned.id)
        return fingerprint(self._folder, self._argv, self._paths.root)


def note(paths: RunPaths, attempt: int, now: Fingerprint) -> bool:
    """Write the code of an attempt to code.json, and an event where it is not that of the attempt before.

    Raises:
        OSError: the disk does not take it. RunDirectoryError: code.json is unreadable.
    """
    from unbroken.run_dir.events import append_event

    file = paths.root / FILE
    before = read_json(file)
    changed = isinstance(before, dict) and before.get("code") not in (None, now.code)
    if changed:
        append_event(
            paths,
            "code_changed",
            attempt,
            before=f"{before.get('name')} in attempt {before.get('attempt')}",
            now=str(now),
            local_changes=list(now.local_changes[:MOST_FILES]),
        )
    value = {"schema_version": SCHEMA_VERSION, "attempt": attempt, "name": str(now), **asdict(now)}
    value["local_changes"] = list(now.local_changes[:MOST_FILES])
    write_json(file, {**value, "recorded_at": utc_now()}, durable=False)
    return changed

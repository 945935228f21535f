"""The pinned code of a collection: made before the first submission, shared by its runs, pruned when they are done.

``<runs>/<slug>/.code/snapshot.json`` says what is pinned; it is the only thing that makes an attempt run elsewhere than
in the project's folder, and only while the collection asks for it.
"""

from dataclasses import dataclass, fields
from pathlib import Path

from unbroken.errors import RunDirectoryError, UnbrokenError
from unbroken.run_dir.files import read_json

SCHEMA_VERSION = 1
FOLDER = ".code"


class SnapshotError(UnbrokenError):
    """The pinned code cannot be made, or is not where it should be."""


@dataclass(frozen=True)
class Pinned:
    """What snapshot.json says."""

    schema_version: int
    kind: str
    """``git``: a detached worktree. ``copy``: files copied, where there is no usable git."""
    id: str
    prefix: str
    """The project's folder within the tree."""
    code: str
    """Fingerprint of the code, as ``record`` compares it."""
    commit: str | None
    changed: list[str]
    """Files with local changes, which the snapshot has."""
    left_out: list[str]
    """Untracked files too large for code, which it does not have."""
    project: str
    created_at: str

    def tree(self, home: Path) -> Path:
        """The root of the pinned files; ``home`` is the collection's ``.code`` folder."""
        return home / self.id

    def workdir(self, home: Path) -> Path:
        """Where the trainer is started."""
        return self.tree(home) / self.prefix

    def __str__(self) -> str:
        base = f"commit {self.commit[:12]}" if self.commit else f"copy {self.id}"
        changes = f" with {len(self.changed)} local change{'s' * (len(self.changed) != 1)}" if self.changed else ""
        return f"{base}{changes}, pinned {self.created_at}"


def home_of(runs_dir: Path, slug: str) -> Path:
    """Where a collection's pinned code lives."""
    return runs_dir / slug / FOLDER


def read(home: Path) -> Pinned | None:
    """What is pinned now; None where nothing is.

    Raises:
        RunDirectoryError: snapshot.json is there and unusable.
    """
    value = read_json(home / "snapshot.json")
    if value is None:
        return None
    known = {field.name for field in fields(Pinned)}
    try:
        pinned = Pinned(**{key: item for key, item in value.items() if key in known})
        safe = pinned.schema_version == SCHEMA_VERSION and pinned.id.isalnum()
        safe = safe and not Path(pinned.prefix).is_absolute() and ".." not in Path(pinned.prefix).parts
    except (TypeError, AttributeError):
        safe = False
    if not safe:
        raise RunDirectoryError(f"{home / 'snapshot.json'} is not ours: remove it, the next call pins the code anew")
    return pinned

"""What the outer Snakemake call does about pinned code, before the first job and after the last."""

from collections.abc import Collection as Container
from collections.abc import Iterable, Iterator
from pathlib import Path

from unbroken.collection.model import Collection
from unbroken.run_dir.lease import holder
from unbroken.snapshot import make
from unbroken.snapshot.pinned import home_of


def settle(
    collections: Iterable[Collection], to_train: Container[str], runs_dir: Path, without: Iterable[Path] = ()
) -> Iterator[str]:
    """Pin the code of collections that ask for it and are to be trained; unpin it elsewhere. Yields what to tell.

    A collection is unpinned when it no longer asks for it, so that no attempt goes on in a detached tree, or when all
    its results are there. Files under a trainer that still lives are left for a later call.

    Raises:
        SnapshotError: the code of a collection that is to be trained cannot be pinned.
    """
    for collection in collections:
        home = home_of(runs_dir, collection.slug)
        wanted = bool(collection.operational["job_code_snapshot_enabled"])
        if wanted and collection.slug in to_train:
            now = make.ensure(home, Path.cwd(), [*without, runs_dir])
            yield f"{collection.slug}: every attempt runs the code of {now}"
            if now.left_out:
                yield f"{collection.slug}: left out, as too large for code: {', '.join(now.left_out[:10])}"
        elif home.is_dir() and (not wanted or _finished(collection, runs_dir)):
            if _in_use(collection, runs_dir):
                # The pointer goes at once: no later attempt enters the tree. Its files stay for who is in there.
                if not wanted and (home / "snapshot.json").exists():
                    (home / "snapshot.json").unlink()
                    yield f"{collection.slug}: code no longer pinned; the files stay while a run of it lives"
            elif make.remove(home):
                yield f"{collection.slug}: " + ("finished, pinned code removed" if wanted else "code no longer pinned")


def _finished(collection: Collection, runs_dir: Path) -> bool:
    return all(run.paths(runs_dir).result.is_file() for run in collection.runs())


def _in_use(collection: Collection, runs_dir: Path) -> bool:
    """Whether a run of the collection has a holder that is not known to be dead."""
    return any(holder(run.paths(runs_dir)) is not None for run in collection.runs())

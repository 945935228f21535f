"""`unbroken snapshot`: which code a collection is pinned to, and unpin it."""

from typing import Annotated

import typer

from unbroken.cli.options import RunsDir
from unbroken.cli.place import load_project
from unbroken.errors import CollectionError
from unbroken.slurm.holders import live_holder
from unbroken.snapshot.pinned import SnapshotError, home_of, read


def command(
    slug: Annotated[str | None, typer.Argument(help="One collection; default: all of config/config.yaml.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Unpin: the next call pins the code of then.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Show the code that collections are pinned to (operational key job_code_snapshot_enabled)."""
    project = load_project()
    if remove and slug is None:
        raise CollectionError("--remove needs a collection: unbroken snapshot SLUG --remove")
    for name in [slug] if slug else project.collections:
        collection = project.load(name)
        home = home_of(project.runs_dir, name)
        if remove:
            from unbroken.snapshot.make import remove as unpin

            live = next((run for run in collection.runs() if live_holder(run.paths(project.runs_dir))), None)
            if live is not None:
                raise SnapshotError(f"{live} is being trained in the pinned code; stop it first")
            print(f"{name}: {'unpinned' if unpin(home) else 'nothing was pinned'}")
            continue
        pinned = read(home)
        asked = collection.operational["job_code_snapshot_enabled"]
        print(f"{name}: {pinned or ('pinned at the next call' if asked else 'not pinned')}")
        for file in pinned.changed if pinned else ():
            print(f"  local change: {file!r}"[:200])

"""`unbroken retry`: let a run that gave up be trained again."""

from typing import Annotated

import typer

from unbroken.cli.locate import RUN_HELP, RunRef, find_run, runs_of
from unbroken.cli.options import RunsDir
from unbroken.cli.start import start_command
from unbroken.errors import LeaseHeld, RunDirectoryError
from unbroken.run_dir.status import read_status
from unbroken.slurm.holders import live_holder


def command(
    run: Annotated[str, typer.Argument(help=f"{RUN_HELP} A slug: every failed run of the collection.")],
    runs_dir: RunsDir = None,
) -> None:
    """Clear a failed run: its counters start again at 0, its checkpoints stay, the next snakemake trains it.

    Refuses while a trainer holds the run directory.
    """
    collection = runs_of(run)
    if not collection:
        return _clear(find_run(run))
    failed = [ref for ref in collection if read_status(ref.paths).status == "failed"]
    for ref in failed:
        _clear(ref)
    if not failed:
        typer.echo(f"None of the {len(collection)} runs of {run} has failed; there is nothing to clear.")


def _clear(ref: RunRef) -> None:
    from unbroken.launch.admission import allow_retry

    if not ref.paths.root.is_dir():
        raise RunDirectoryError(
            f"{ref} has no run directory yet: there is nothing to clear; start it with: {start_command(ref)}"
        )
    holder = live_holder(ref.paths)
    if holder is not None:
        raise LeaseHeld(f"{ref} is being trained by {holder}; cancel that first, or wait for its end")
    before = read_status(ref.paths)
    if ref.paths.result.is_file():
        typer.echo(f"{ref} is completed; nothing to clear (delete {ref.paths.result} to train it again).")
        return
    allow_retry(ref.paths)
    was = f"was {before.status}" + (f": {before.reason}" if before.reason else "")
    place = f"step {before.global_step}" if before.global_step else "its last checkpoint, if it saved one"
    typer.echo(f"{ref} {was}. It may be trained again, from {place}: {start_command(ref)}")

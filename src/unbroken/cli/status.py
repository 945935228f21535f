"""`unbroken status`: one row a run."""

import sys
import time
from typing import Annotated

import typer

from unbroken.cli.look import look
from unbroken.cli.options import RunsDir


def command(
    slug: Annotated[str | None, typer.Argument(help="One collection; default: all of config/config.yaml.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks with --watch.", min=1.0)] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """How every run stands: progress, time left, attempts, job, and why it waits.

    Reads the run directories first and asks Slurm once (squeue); works without Slurm too. `saved` is the age of the
    last checkpoint, `time left` comes from the run's own speed.
    """
    while True:
        try:
            look(slug, as_json, clear=watch and sys.stdout.isatty() and not as_json)
            if not watch:
                return
            time.sleep(every)
        except KeyboardInterrupt:
            return

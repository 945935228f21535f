"""Options that several commands have."""

from typing import Annotated

import typer

from unbroken.cli.place import RUNS_VARIABLE, use_runs

RunsDir = Annotated[
    str | None,
    typer.Option(
        "--runs-dir",
        callback=use_runs,
        help=f"Where the runs live, if Snakemake was told with --config runs_dir=...; also {RUNS_VARIABLE}.",
        show_default=False,
    ),
]
"""Its callback does all: a command only has to name it."""

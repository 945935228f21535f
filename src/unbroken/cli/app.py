"""The commands of `unbroken` and where each lives. A new one: a module with a function `command`, and a line here."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from unbroken import __version__
from unbroken.errors import UnbrokenError

COMMANDS = {
    "status": "unbroken.cli.status",
    "why": "unbroken.cli.why",
    "metrics": "unbroken.cli.metrics",
    "cluster": "unbroken.cli.cluster",
    "gpu": "unbroken.cli.gpu",
    "preempt": "unbroken.cli.preempt",
    "drill": "unbroken.cli.drill",
    "retry": "unbroken.cli.retry",
    "adopt": "unbroken.cli.adopt",
    "check": "unbroken.cli.check",
    "new": "unbroken.cli.new",
    "init": "unbroken.cli.init",
    "snapshot": "unbroken.cli.snapshot",
}
"""Name -> module. Only the module of the command that is called gets imported."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """The command line, with the one command that ``arguments`` call, or with all of them for the help."""
    app = typer.Typer(
        help="Collections of training runs on Snakemake and Slurm: how they stand, and why.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_project)
    first = arguments[0] if arguments else ""
    wanted = {first: COMMANDS[first]} if first in COMMANDS else COMMANDS
    for name, module in wanted.items():
        app.command(name)(import_module(module).command)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"unbroken {__version__}")
        raise typer.Exit


def _project(
    project: Annotated[
        Path | None, typer.Option("--project", "-C", help="The project's directory (with config/); default: here.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Which version this is.")
    ] = False,
) -> None:
    if project is not None:
        try:
            os.chdir(project)
        except OSError as error:
            raise UnbrokenError(
                f"--project {project}: {error.strerror}; give the directory that has config/"
            ) from error

"""Where the project's files are: config.yaml, and the runs, which a call may have put elsewhere."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unbroken.collection.project import ProjectConfig

CONFIG = "config/config.yaml"
RUNS_VARIABLE = "UNBROKEN_RUNS_DIR"

_asked: list[str] = []
"""What --runs-dir says; at most one."""


def use_runs(value: str | None) -> str | None:
    """The callback of --runs-dir."""
    _asked[:] = [value] if value else []
    return value


def given_runs() -> str | None:
    """The runs directory that this call names, if it does: as `snakemake --config runs_dir=...` may have done."""
    given = _asked[0] if _asked else os.environ.get(RUNS_VARIABLE)
    return os.path.expanduser(given) if given else None


def runs_source() -> str:
    """Who says where the runs live."""
    if _asked:
        return "--runs-dir"
    if given_runs():
        return RUNS_VARIABLE
    return f"runs_dir of {CONFIG}; if they were started with --config runs_dir=..., give --runs-dir"


def load_project() -> "ProjectConfig":
    """config.yaml, and the runs directory of this call.

    Raises:
        CollectionError: the file cannot be used.
    """
    from dataclasses import replace

    from unbroken.collection.project import load_config

    config, given = load_config(CONFIG), given_runs()
    return replace(config, runs_dir=Path(given)) if given else config


def guessed_runs() -> str:
    """Where the runs live, as one line of config.yaml says: good enough to begin reading before the file is checked."""
    if given := given_runs():
        return given
    try:
        with open(CONFIG, encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].split(":", 1) for line in file if line.startswith("runs_dir:")]
    except OSError:
        return "runs"
    return lines[-1][1].strip().strip("'\"") if lines else "runs"

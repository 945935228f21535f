"""The command line that the built-in trainers share."""

import argparse
import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from unbroken import exit_codes
from unbroken.training.context import plain_errors


def parser(trainer: str, description: str) -> argparse.ArgumentParser:
    """Options of every trainer; without them the launcher's UNBROKEN_* variables hold."""
    made = argparse.ArgumentParser(prog=f"python -m unbroken.trainers.{trainer}", description=description)
    made.add_argument(
        "--config", help="run config (YAML); default: UNBROKEN_CONFIG, or config.yaml in the run directory"
    )
    made.add_argument("--run-dir", "--out", dest="run_dir", help="run directory; default: UNBROKEN_RUN_DIR")
    made.add_argument("--ckpt-dir", help="where checkpoints lie, if not in <run-dir>/checkpoints")
    made.add_argument(
        "--resume-from", metavar="PATH", help="go on from this checkpoint instead of the run directory's own"
    )
    made.add_argument(
        "--auto-resume", action=argparse.BooleanOptionalAction, default=None,
        help="go on from checkpoints/last.pt when it is there (default: as the config says, else yes)",
    )  # fmt: skip
    made.add_argument(
        "--checkpoint-interval", type=_interval, metavar="N", help="effective batches between saves; 0 = none; or auto"
    )
    made.add_argument("--seed", type=int, help="default: UNBROKEN_SEED, or the config's seed, or 0")
    return made


def _interval(text: str) -> int | str:
    if text == "auto":
        return text
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def session_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of ``Session.open`` that the options stand for."""
    return {
        name: getattr(arguments, name)
        for name in ("run_dir", "config", "seed", "ckpt_dir", "resume_from", "auto_resume", "checkpoint_interval")
    }


def leave(main: Callable[[], int | None]) -> NoReturn:
    """Call a trainer and end the process with its exit code, at once.

    The run directory is complete by then. Taking the interpreter and torch apart takes over a second, which after a
    signal belongs to the time that Slurm leaves.
    """
    code = exit_codes.FAILED
    try:
        code = run(main)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else exit_codes.COMPLETED if end.code is None else code
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def run(main: Callable[[], int | None]) -> int:
    """Call a trainer; a person's mistake is one message, never a traceback. Raises SystemExit, see ``unbroken.run``."""
    with plain_errors():
        return main() or exit_codes.COMPLETED

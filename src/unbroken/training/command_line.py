"""The command line that the built-in trainers share."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from unbroken.errors import UnbrokenError


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


def run(main: Callable[[], int | None]) -> int:
    """Call a trainer; a person's mistake is one message, never a traceback."""
    try:
        return main() or 0
    except UnbrokenError as error:
        print(f"unbroken: {error}", file=sys.stderr, flush=True)
        return error.exit_code

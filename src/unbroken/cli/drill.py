"""`unbroken drill`: interrupt scratch copies of a run in every way, and compare the bits."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbroken.cli.locate import RUN_HELP, RunNotFound, find_run
from unbroken.cli.options import RunsDir
from unbroken.cli.output import print_json, print_table
from unbroken.cli.place import load_project
from unbroken.collection.load import SLUG, load_collection
from unbroken.collection.model import Run
from unbroken.errors import UnbrokenError

if TYPE_CHECKING:
    from unbroken.drill.series import Report

_HEADERS = ("fault", "at", "result", "lost", "what happened")
_STYLES = {"pass": "green", "fail": "red", "noted": "yellow"}


def command(
    what: Annotated[str, typer.Argument(help=f"A collection (its first run), by slug or file. {RUN_HELP}")],
    at: Annotated[list[int] | None, typer.Option(help="A step to interrupt at; may be repeated.")] = None,
    random: Annotated[
        int | None, typer.Option(min=0, help="Random places for every fault (default: 1, or 0 with --at).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random places.")] = 0,
    faults: Annotated[
        str | None, typer.Option(help="Of TERM, USR1, USR2, INT, KILL, DOUBLE, TRUNCATE, FULL_DISK, DOUBLE_START.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="key=value in the scratch copies, e.g. --set epochs=1.")
    ] = None,
    grace: Annotated[float, typer.Option(min=0.1, help="Seconds that a stop may take.")] = 60.0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Faults tried at the same time.")] = 1,
    scratch: Annotated[
        Path | None, typer.Option(help="Where the copies lie (default: the folder for temporary files).")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the copies there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Interrupt scratch copies of a run: signals, a kill, a truncated checkpoint, a full disk, a double start.

    Each goes on to its end and is compared bit for bit with the undisturbed run: result.json, last.pt, metrics.csv.
    The run's own directory is never touched. Works for built-in trainers and any command; needs no Slurm. Exit code 0
    when all pass, 1 when one fails; the first thing that differs is named.
    """
    from unbroken.drill.faults import FAULTS, USUAL
    from unbroken.drill.series import Drill, Plan
    from unbroken.drill.subject import make_subject

    wanted = tuple(name.strip().upper() for name in faults.split(",")) if faults is not None else USUAL
    if unknown := [name for name in wanted if name not in FAULTS]:
        raise UnbrokenError(f"--faults {unknown[0]}: give some of {','.join(FAULTS)}")
    subject = make_subject(run_of(what), changes or ())
    places = random if random is not None else 0 if at else 1
    if not places and not at:
        raise UnbrokenError("--random 0 without --at interrupts nowhere: give one of them")
    plan = Plan(wanted, at or (), places, seed, grace, jobs)
    before = signal.signal(signal.SIGTERM, _called_off)
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="unbroken-drill-", dir=scratch)).resolve()
    _tell(f"drilling {subject.name}" + (f" ({subject.label})" if subject.label else "") + f" in {folder}")
    try:
        report = Drill(subject, plan, folder, keep, _tell).run()
    finally:
        signal.signal(signal.SIGTERM, before)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print_json({**report.as_json(), "scratch": str(folder) if keep else None})
    else:
        _show(report, folder if keep else None)
    raise typer.Exit(0 if report.passed else 1)


def _called_off(number: int, _frame: object) -> None:
    """Leave no launcher and no mount behind."""
    raise SystemExit(128 + number)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_of(what: str) -> Run:
    """The run that is meant, out of its collection."""
    if what.endswith(".yaml") and Path(what).is_file():
        return next(load_collection(what).runs())
    config = load_project()
    if SLUG.match(what) and config.collection_path(what).is_file():
        return next(config.load(what).runs())
    ref = find_run(what)
    try:
        return config.load(ref.slug).run(ref.setting, ref.seed)
    except KeyError:
        raise RunNotFound(f"{ref} is in no collection (any more), so nobody knows how to train it") from None


def _show(report: "Report", kept: Path | None) -> None:
    outcomes = report.outcomes
    rows = [(item.fault, item.at, item.verdict, item.lost, _what(item)) for item in outcomes]
    print_table(_HEADERS, rows, [_STYLES[item.verdict] for item in outcomes])
    failed = sum(item.verdict == "fail" for item in outcomes)
    if report.passed:
        typer.echo(f"PASS: {len(outcomes)} of {len(outcomes)} end as the undisturbed run ({report.whole.scale}).")
    else:
        typer.echo(f"FAIL: {failed} of {len(outcomes)}.")
        for number, finding in enumerate(report.findings):
            typer.echo(f"{'First' if number == 0 else 'Also'}: {finding}")
    if kept is not None:
        typer.echo(f"The copies are in {kept}.")


def _what(item: Any) -> str:
    texts = [item.happened, item.problem, *item.notes]
    if item.differences:
        texts.append(f"differs: {item.differences[0]}")
    elif item.verdict == "pass":
        texts.append("the same bits" if item.lost in ("", "nothing") else "trained that again, the same bits")
    return "; ".join(text for text in texts if text)

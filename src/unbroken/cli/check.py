"""`unbroken check`: is everything written as it should be, and what will it cost?"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from unbroken.cli.estimate import Estimate, estimate, size
from unbroken.cli.options import RunsDir
from unbroken.cli.output import duration, print_json, print_table
from unbroken.cli.place import load_project
from unbroken.cli.typos import warnings
from unbroken.collection.load import load_collection
from unbroken.collection.model import Collection
from unbroken.collection.project import ProjectConfig
from unbroken.errors import CollectionError

MOST_SETTINGS = 50


def command(
    what: Annotated[
        str | None, typer.Argument(help="A collection, by slug or file; default: config.yaml and all collections.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Check config.yaml and the collections; show the runs, their cost in jobs and hours, and the disk they take.

    Hours and disk are measured where runs have finished, else there is only the time limit. Exit code 1 where
    something is wrong; a warning is no error.
    """
    project, errors = _project()
    reports: list[dict[str, Any]] = []
    for path in _files(project, what):
        try:
            given = {} if project.seeds is None else {"seeds": project.seeds}
            collection = load_collection(path, given)
        except CollectionError as error:
            errors.append(str(error))
            continue
        numbers = estimate(collection, project.runs_dir)
        report = _report(collection, project, numbers)
        reports.append(report)
        if not as_json:
            _show(collection, report, numbers, project)
            if what is not None:
                _show_runs(collection, project)
    if as_json:
        print_json({"collections": reports, "errors": errors})
    else:
        for sentence in errors:
            print(f"error: {sentence}")
    if errors:
        raise typer.Exit(1)


def _project() -> tuple[ProjectConfig, list[str]]:
    try:
        return load_project(), []
    except CollectionError as error:
        return ProjectConfig(collections=()), [str(error)]


def _files(project: ProjectConfig, what: str | None) -> list[Path]:
    if what is not None:
        return [Path(what) if "/" in what or what.endswith(".yaml") else project.collection_path(what)]
    there = sorted(project.collections_dir.glob("*.yaml")) if project.collections_dir.is_dir() else []
    listed = [project.collection_path(slug) for slug in project.collections]
    return list(dict.fromkeys([*listed, *there]))


def _report(collection: Collection, project: ProjectConfig, numbers: Estimate) -> dict[str, Any]:
    listed = collection.slug in project.collections
    said = list(warnings(collection))
    if numbers.missing_bytes and numbers.free_bytes is not None and numbers.missing_bytes > numbers.free_bytes:
        said.append(
            f"the runs still to do take about {size(numbers.missing_bytes)}, {size(numbers.free_bytes)} is free in "
            f"{project.runs_dir}"
        )
    return {**asdict(numbers), "path": str(collection.path), "listed": listed, "warnings": said}


def _show(collection: Collection, report: dict[str, Any], numbers: Estimate, project: ProjectConfig) -> None:
    by_name = "" if report["listed"] else f" (runs by name: snakemake {collection.slug})"
    print(
        f"{collection.slug}: {_count(numbers.settings, 'setting')} x {_count(numbers.seeds, 'seed')} = "
        f"{_count(numbers.runs, 'run')}; {numbers.finished} finished, {numbers.jobs} to do{by_name}"
    )
    for line in (*_cost(numbers), *_disk(numbers, project), *(f"warning: {said}" for said in report["warnings"])):
        print(f"  {line}")


def _show_runs(collection: Collection, project: ProjectConfig) -> None:
    rows = []
    for setting in collection.settings[:MOST_SETTINGS]:
        paths = [collection.run(setting.id, seed).paths(project.runs_dir) for seed in collection.seeds]
        done = sum(path.result.is_file() for path in paths)
        rows.append([setting.id, setting.label, f"{done} of {len(paths)}", str(paths[0].root.parent)])
    print_table(["setting", "what varies", "seeds finished", "directory"], rows)
    if len(collection.settings) > MOST_SETTINGS:
        print(f"... and {len(collection.settings) - MOST_SETTINGS} more settings")


def _cost(numbers: Estimate) -> Iterator[str]:
    if not numbers.jobs:
        return
    limit = "" if numbers.limit_hours is None else f", time limit {duration(numbers.limit_hours * 3600)} each"
    if numbers.hours is not None:
        about = f"about {duration(numbers.hours * 3600)} in all, by {_count(numbers.measured_runs, 'finished run')}"
    elif numbers.limit_hours is not None:
        about = f"at most {duration(numbers.limit_hours * numbers.jobs * 3600)} in all if none is interrupted"
    else:
        about = "time unknown until a run has finished"
    yield f"cost: {_count(numbers.jobs, 'job')}{limit}; {about}"


def _disk(numbers: Estimate, project: ProjectConfig) -> Iterator[str]:
    free = "" if numbers.free_bytes is None else f"; {size(numbers.free_bytes)} free in {project.runs_dir}"
    if numbers.disk_bytes is None or numbers.run_bytes is None:
        yield f"disk: unknown until a run has saved{free}"
    else:
        yield f"disk: about {size(numbers.disk_bytes)} in all ({size(numbers.run_bytes)} a run){free}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

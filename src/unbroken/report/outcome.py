"""The last words of a Snakemake call: summary and report over what is finished, and what is not."""

from collections.abc import Collection as Container
from collections.abc import Iterator
from pathlib import Path

from unbroken.collection import Collection, ProjectConfig
from unbroken.errors import UnbrokenError
from unbroken.report.page import write_report
from unbroken.report.records import Record, read_records
from unbroken.report.summary import write_summary

MOST_FAILED = 20


def conclude(collection: Collection, project: ProjectConfig, made: Container[str] = ()) -> Iterator[str]:
    """Write summary and report where the call has not ``made`` them; yield lines for a terminal. Never raises.

    It runs when a call ends, also with an error, and must not hide that error behind one of its own.
    """
    home = Path(project.results_dir) / collection.slug
    summary, page = home / "summary.csv", home / "report.html"
    records = list(read_records(collection, project.runs_dir))
    try:
        if str(summary) not in made:
            write_summary(collection, project.runs_dir, summary, records)
        if str(page) not in made:
            write_report(collection, project.runs_dir, page, records)
    except (UnbrokenError, OSError) as error:
        yield f"unbroken: cannot write into {home}: {error}"
    yield outcome_line(records, collection.slug, summary, page)
    yield from failure_lines(records)


def outcome_line(records: list[Record], slug: str, summary: Path, page: Path) -> str:
    """``demo: 4 of 4 runs finished; summary: results/demo/summary.csv, report: results/demo/report.html``."""
    finished = sum(record.result is not None for record in records)
    return f"{slug}: {finished} of {len(records)} runs finished; summary: {summary}, report: {page}"


def failure_lines(records: list[Record], most: int = MOST_FAILED) -> Iterator[str]:
    """One line for each run that failed, naming run, reason and log."""
    failed = [record for record in records if record.state == "failed"]
    for record in failed[:most]:
        why = record.reason or "no reason was recorded"
        yield f"  failed: {record.name} ({record.paths.root}): {why}; log: {record.log or 'none was written'}"
    if len(failed) > most:
        yield f"  and {len(failed) - most} more failed runs; the report names every one"

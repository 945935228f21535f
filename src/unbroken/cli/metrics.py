"""`unbroken metrics`: what the runs used of what they had asked for."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from unbroken.cli import output, project
from unbroken.cli.options import RunsDir
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import SlurmError, UnbrokenError
from unbroken.run_dir.events import read_events
from unbroken.slurm import client
from unbroken.slurm.accounting import run_record, suggest, table, why_no_memory

_HEADERS = ["run", "seed", "state", "tries", "elapsed", "queued", "CPUs", "CPU eff", "MaxRSS", "asked", "GPUs", "node"]


def command(
    slug: Annotated[str | None, typer.Argument(help="One collection; default: all of config/config.yaml.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the whole table as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the whole table as Parquet (needs pyarrow).")] = None,
    runs_dir: RunsDir = None,
) -> None:
    """Elapsed time, queue wait, CPU and memory use, GPUs and nodes of every run over all its attempts (sacct).

    Ends with what to ask for in the collection's resources, judged by the seeds that have finished.
    """
    known = project.known_collections()
    runs = list(_runs(known, slug))
    records = gather(known["runs"], runs)
    advice = suggest(records)
    note = _memory_note(records)
    _write(records, csv, parquet)
    if as_json:
        output.print_json({"runs": records, "suggestion": advice, "note": note})
        return
    if not records:
        print("No run of these collections has had a Slurm job yet.")
        return
    output.print_table(_HEADERS, [_cells(record) for record in records])
    if note:
        print(note)
    if advice:
        asks = ", ".join(f"{key}: {value}" for key, value in advice.items() if key != "from_runs")
        print(f"From {advice['from_runs']} finished runs: resources: {{{asks}}} would do (30 % of reserve in it).")


def _runs(known: dict[str, Any], slug: str | None) -> Iterable[tuple[str, str, str, int]]:
    """(slug, setting, label, seed) of every run that has a directory."""
    for name, collection in project.chosen(known, slug).items():
        labels = dict(collection["settings"])
        for setting, seed in sorted(project.read_statuses(known["runs"], name)):
            yield name, setting, labels.get(setting, ""), seed


def gather(runs_dir: str, runs: Iterable[tuple[str, str, str, int]]) -> list[dict[str, Any]]:
    """One record a run that has had jobs, in order; sacct is asked for all jobs together.

    Raises:
        SlurmError: accounting does not answer or the cluster keeps none.
    """
    jobs: dict[tuple[str, str, str, int], list[str]] = {}
    for run in runs:
        slug, setting, _, seed = run
        ids = _job_ids(RunPaths.of(runs_dir, slug, setting, seed))
        if ids:
            jobs[run] = ids
    rows = client.accounting({job_id for ids in jobs.values() for job_id in ids}) if jobs else []
    records = []
    for (slug, setting, label, seed), ids in jobs.items():
        mine = [row for row in rows if row.job_id in ids or row.raw_id in ids]
        records.append({**run_record(f"{slug}/{setting}/{seed}", label, mine), "seed": seed})
    return records


def _job_ids(paths: RunPaths) -> list[str]:
    from unbroken.errors import RunDirectoryError
    from unbroken.run_dir.status import read_status

    ids = [str(event["slurm_job_id"]) for event in read_events(paths) if event.get("slurm_job_id")]
    try:
        newest = read_status(paths).slurm_job_id
    except RunDirectoryError:
        newest = None
    return list(dict.fromkeys([*ids, *([newest] if newest else [])]))


def _memory_note(records: list[dict[str, Any]]) -> str | None:
    if not any(record["attempts"] and record["max_rss_mib"] is None for record in records):
        return None
    try:
        gather_type = client.show_config().get("JobAcctGatherType")
    except SlurmError:
        gather_type = None
    return why_no_memory(gather_type)


def _write(records: list[dict[str, Any]], csv: Path | None, parquet: Path | None) -> None:
    if csv is None and parquet is None:
        return
    frame = table(records)
    if csv is not None:
        csv.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(csv, index=False)
    if parquet is not None:
        parquet.parent.mkdir(parents=True, exist_ok=True)
        try:
            frame.to_parquet(parquet, index=False)
        except ImportError as error:
            raise UnbrokenError(
                "Parquet needs pyarrow, which is not installed: pip install pyarrow, or use --csv"
            ) from error


def _cells(record: dict[str, Any]) -> list[str]:
    def mib(value: float | None) -> str:
        return "" if value is None else f"{value:.0f} MiB"

    efficiency = record["cpu_efficiency"]
    return [
        record["label"] or record["run"],
        str(record["seed"]),
        record["state"] or "",
        str(record["attempts"]),
        output.duration(record["elapsed_s"]),
        output.duration(record["queued_s"]),
        str(record["cpus"] or ""),
        "" if efficiency is None else f"{efficiency:.0%}",
        mib(record["max_rss_mib"]),
        mib(record["memory_asked_mib"]),
        str(record["gpus"] or ""),
        record["nodes"],
    ]

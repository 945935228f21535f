"""`unbroken why`: one verdict and the line that mends it."""

from typing import Annotated

import typer

from unbroken.cli import output
from unbroken.cli.locate import RUN_HELP, JobRef, RunRef, find, runs_of
from unbroken.run_dir.status import read_status
from unbroken.slurm import client, gather
from unbroken.slurm.diagnose import diagnose
from unbroken.slurm.verdict import Evidence, Verdict

MOST_RUNS = 20
"""Of a collection, so many runs are explained in one call: each costs a few questions to Slurm."""


def command(
    run: Annotated[str, typer.Argument(help=f"{RUN_HELP} A collection's slug: all of its runs that are not finished.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
) -> None:
    """Why a run is not finished (or that it is): one sentence, its proofs, and what to do.

    Joins run_status.json, events, the log, the lease, the identity, the controller (scontrol) and accounting (sacct,
    every requeue and step). Works without Slurm, and says what could not be asked.
    """
    of_collection = runs_of(run)
    if of_collection:
        _whole_collection(run, of_collection, as_json)
        return
    evidence = gather_evidence(run)
    verdict = diagnose(evidence)
    if as_json:
        output.print_json(_document(evidence, verdict))
        return
    _show(verdict)


def _whole_collection(slug: str, runs: list[RunRef], as_json: bool) -> None:
    """A verdict for each run that began and is not finished; the others are counted."""
    states = [read_status(run.paths).status for run in runs]
    begun = [run for run, state in zip(runs, states, strict=True) if state not in ("pending", "completed")]
    judged = [(evidence, diagnose(evidence)) for evidence in (_of_run(run) for run in begun[:MOST_RUNS])]
    if as_json:
        output.print_json([_document(evidence, verdict) for evidence, verdict in judged])
        return
    for run, (_, verdict) in zip(begun, judged, strict=False):
        typer.echo(f"{run}: {verdict.sentence}")
        if verdict.fix:
            typer.echo(f"  What to do: {verdict.fix}")
    if len(begun) > MOST_RUNS:
        typer.echo(f"and {len(begun) - MOST_RUNS} more: `unbroken status {slug}` lists them")
    typer.echo(
        f"{slug}: {states.count('completed')} of {len(runs)} runs finished, {states.count('pending')} not started"
    )


def _document(evidence: Evidence, verdict: Verdict) -> dict[str, object]:
    return {"run": evidence.name, "job": evidence.job_id, **verdict.as_json()}


def gather_evidence(text: str) -> Evidence:
    """Everything that is known about what ``text`` means."""
    found = find(text)
    return gather.about_job(found.job_id) if isinstance(found, JobRef) else _of_run(found)


def _of_run(run: RunRef) -> Evidence:
    return gather.about_run(run.name, run.paths, start_command(run), queued_job(run))


def start_command(run: RunRef) -> str:
    """What a person types to train the run (again)."""
    return f"snakemake --profile slurm {run.slug}" if client.available("sbatch") else f"snakemake {run.slug}"


def queued_job(run: RunRef) -> str | None:
    """The run's job in the queue, by the comment that the executor gives it."""
    from unbroken.cli.queue import Queue, known_queue

    job = Queue(known_queue()).job(run.slug, run.setting, run.seed, None)
    return str(job["job_id"]) if job else None


def _show(verdict: Verdict) -> None:
    typer.echo(verdict.sentence)
    for line in verdict.evidence:
        typer.echo(f"  - {line}")
    if verdict.fix:
        typer.echo(f"What to do: {verdict.fix}")

"""`unbroken why`: one verdict and the line that mends it."""

from typing import Annotated

import typer

from unbroken.cli import output
from unbroken.cli.locate import RUN_HELP, JobRef, RunRef, find
from unbroken.slurm import client, gather
from unbroken.slurm.diagnose import diagnose
from unbroken.slurm.verdict import Evidence, Verdict


def command(
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
) -> None:
    """Why a run is not finished (or that it is): one sentence, its proofs, and what to do.

    Joins run_status.json, events, the log, the lease, the identity, the controller (scontrol) and accounting (sacct,
    every requeue and step). Works without Slurm, and says what could not be asked.
    """
    evidence = gather_evidence(run)
    verdict = diagnose(evidence)
    if as_json:
        output.print_json({"run": evidence.name, "job": evidence.job_id, **verdict.as_json()})
        return
    _show(verdict)


def gather_evidence(text: str) -> Evidence:
    """Everything that is known about what ``text`` means."""
    found = find(text)
    if isinstance(found, JobRef):
        return gather.about_job(found.job_id)
    return gather.about_run(found.name, found.paths, start_command(found), queued_job(found))


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

"""`unbroken why`: one verdict and the line that mends it."""

from typing import Annotated

import typer

from unbroken.cli import output
from unbroken.cli.locate import RUN_HELP, JobRef, RunRef, find, runs_of
from unbroken.cli.options import RunsDir
from unbroken.cli.queue import Queue, known_queue
from unbroken.cli.start import commands, start_command
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.status import read_status
from unbroken.slurm import gather
from unbroken.slurm.diagnose import diagnose
from unbroken.slurm.verdict import Evidence, Verdict

MOST_RUNS = 20
"""Of a collection, so many runs are explained in one call: each costs a few questions to Slurm."""


def command(
    run: Annotated[str, typer.Argument(help=f"{RUN_HELP} A collection's slug: all of its runs that are not finished.")],
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON document.")] = False,
    runs_dir: RunsDir = None,
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
    """A verdict for each run that began or waits in the queue and is not finished; the others are counted."""
    jobs = Queue(known_queue())
    states = [_state(run) for run in runs]
    queued = [_job(jobs, run) for run in runs]
    begun = [
        (run, job)
        for run, job, state in zip(runs, queued, states, strict=True)
        if state == "begun" or (job and state == "not started")
    ]
    judged = [(evidence, diagnose(evidence)) for evidence in (_of_run(run, job) for run, job in begun[:MOST_RUNS])]
    if as_json:
        output.print_json([_document(evidence, verdict) for evidence, verdict in judged])
        return
    for (run, _), (evidence, verdict) in zip(begun, judged, strict=False):
        typer.echo(f"{run}: {verdict.about(evidence.name)}")
        if verdict.fix:
            typer.echo(f"  {_advice(verdict)}")
    if len(begun) > MOST_RUNS:
        typer.echo(f"and {len(begun) - MOST_RUNS} more: `unbroken status {slug}` lists them")
    counts = f"{states.count('finished')} of {len(runs)} runs finished, {states.count('not started')} not started"
    if begun or "finished" in states:
        typer.echo(f"{slug}: {counts}")
    else:
        typer.echo(f"{slug}: none of its {len(runs)} runs was started yet; start them with: {commands(slug)}")


def _state(run: RunRef) -> str:
    """A run is finished when its result is there, whatever its status says: the launcher writes that a moment later."""
    if run.paths.result.is_file():
        return "finished"
    try:
        return "not started" if read_status(run.paths).status == "pending" else "begun"
    except (RunDirectoryError, OSError):
        return "begun"  # and its verdict says what is wrong with the file


def _document(evidence: Evidence, verdict: Verdict) -> dict[str, object]:
    return {"run": evidence.name, "job": evidence.job_id, **verdict.as_json()}


def gather_evidence(text: str) -> Evidence:
    """Everything that is known about what ``text`` means."""
    found = find(text)
    return gather.about_job(found.job_id) if isinstance(found, JobRef) else _of_run(found, queued_job(found))


def _of_run(run: RunRef, job: str | None) -> Evidence:
    return gather.about_run(run.name, run.paths, start_command(run, job), job)


def queued_job(run: RunRef) -> str | None:
    """The run's job in the queue, by the comment that the executor gives it."""
    return _job(Queue(known_queue()), run)


def _job(queue: Queue, run: RunRef) -> str | None:
    job = queue.job(run.slug, run.setting, run.seed, None)
    return str(job["job_id"]) if job else None


def _show(verdict: Verdict) -> None:
    typer.echo(verdict.sentence)
    for line in verdict.evidence:
        typer.echo(f"  - {line}")
    if verdict.fix:
        typer.echo(_advice(verdict))


def _advice(verdict: Verdict) -> str:
    return verdict.fix if verdict.fix.startswith("Nothing to do") else f"What to do: {verdict.fix}"

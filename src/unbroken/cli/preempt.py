"""`unbroken preempt`: practise recovery."""

import os
import signal as signals
from typing import Annotated

import typer

from unbroken.cli.locate import RUN_HELP, JobRef, RunRef, find
from unbroken.cli.options import RunsDir
from unbroken.cli.why import queued_job
from unbroken.errors import UnbrokenError
from unbroken.run_dir.status import read_status
from unbroken.slurm import client
from unbroken.slurm.holders import live_holder

_ALLOWED = ("TERM", "USR1", "USR2", "INT")


def command(
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    signal: Annotated[
        str, typer.Option(help="TERM as preemption sends it, USR1 as ahead of a time limit; USR2, INT.")
    ] = "TERM",
    runs_dir: RunsDir = None,
) -> None:
    """Send a running run the warning that Slurm would send, to see it save, end with 42 and come back.

    On Slurm the signal goes to the job's steps (scancel --signal), as a preemption does; without Slurm to the launcher.
    """
    name = signal.upper().removeprefix("SIG")
    if name not in _ALLOWED:
        raise UnbrokenError(f"--signal {signal}: a trainer is warned by one of {', '.join(_ALLOWED)}")
    found = find(run)
    job_id = found.job_id if isinstance(found, JobRef) else _live_job(found)
    if job_id is not None:
        client.send_signal(job_id, name)
        typer.echo(f"Sent SIG{name} to the steps of job {job_id}. Watch it: unbroken status --watch")
        return
    assert isinstance(found, RunRef)
    holder = live_holder(found.paths)
    if holder is None:
        raise UnbrokenError(f"{found} is not running now; `unbroken why` tells how it stands")
    if not holder.on_this_machine:
        raise UnbrokenError(f"{found} runs outside Slurm on another machine: {holder}; send the signal there")
    os.kill(holder.pid, getattr(signals, f"SIG{name}"))
    typer.echo(f"Sent SIG{name} to its launcher, process {holder.pid}. Watch it: unbroken status --watch")


def _live_job(run: RunRef) -> str | None:
    """The Slurm job that runs the run now; None where it runs without Slurm or not at all."""
    if not client.available("scancel"):
        return None
    job_id = queued_job(run) or read_status(run.paths).slurm_job_id
    if job_id is None:
        return None
    job = client.show_job(job_id)
    state = (job or {}).get("JobState")
    if state == "PENDING":
        raise UnbrokenError(f"{run}: job {job_id} waits in the queue; there is no process to warn yet")
    return job_id if state in {"RUNNING", "SUSPENDED"} else None

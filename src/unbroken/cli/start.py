"""The command that starts a run or a collection (again), as a person types it."""

import shlex

from unbroken.cli.locate import RunRef
from unbroken.cli.place import given_runs
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.status import RunStatus, read_status
from unbroken.slurm import client


def commands(slug: str) -> str:
    """For what was never started: here, and where there is Slurm also on it."""
    if not client.available("sbatch"):
        return _local(slug)
    return f"{_local(slug)} (as Slurm jobs: {_on_slurm(slug)})"


def start_command(run: RunRef, queued_job: str | None = None) -> str:
    """What trains the run as it was trained last: on Slurm, or here."""
    try:
        status = read_status(run.paths)
    except (RunDirectoryError, OSError):
        status = RunStatus()
    if queued_job or status.slurm_job_id:
        return _on_slurm(run.slug)
    return _local(run.slug) if status.attempt else commands(run.slug)


def _local(slug: str) -> str:
    return f"snakemake {slug}{_elsewhere()}"


def _on_slurm(slug: str) -> str:
    return f"snakemake --profile slurm {slug}{_elsewhere()}"


def _elsewhere() -> str:
    runs = given_runs()
    return f" --config runs_dir={shlex.quote(runs)}" if runs else ""

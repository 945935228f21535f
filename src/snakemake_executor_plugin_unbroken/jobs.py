"""A Snakemake job, as we see it: which run it trains, and what it is called in Slurm."""

import re
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.lease import holder
from unbroken.run_dir.status import RunStatus, read_status
from unbroken.slurm.client import show_job

LONGEST_NAME = 64
"""Slurm takes more, but squeue, sacct and some sites' submission filters do not."""


def label(job: Any) -> str:
    """For messages: collection, setting, seed; the rule where it trains no run."""
    params = getattr(job, "params", None)
    run = params.get("run") if params else None
    return str(run["label"] if isinstance(run, dict) and "label" in run else job.name)


def job_name(text: str) -> str:
    """A job name that `squeue` shows: the run's label in safe characters, at most LONGEST_NAME of them."""
    return re.sub(r"[^A-Za-z0-9_.,=+/-]+", "_", text)[:LONGEST_NAME].strip("_") or "unbroken"


def comment(job: Any) -> str:
    """The comment that the stock plugin gives a job: rule and wildcards, so it names the run."""
    wildcards = "_".join(job.wildcards).replace("/", "_") if job.wildcards else ""
    return f"rule_{job.name}_wildcards_{wildcards}" if wildcards else f"rule_{job.name}"


def paths_of(job: Any) -> RunPaths:
    """The run directory that the job's one output lies in."""
    return RunPaths(Path(str(job.output[0])).parent)


def run_of(job: Any) -> tuple[RunStatus, bool]:
    """The status of the run that a job trains, and whether its result is there."""
    output = Path(str(job.output[0]))
    try:
        return read_status(paths_of(job)), output.exists()
    except RunDirectoryError:
        return RunStatus(), output.exists()


def other_holder(job: Any, job_id: str) -> tuple[str, str | None]:
    """Who trains the run instead of Slurm job ``job_id``: in words, and that process' Slurm job; "" and None: nobody.

    Raises:
        SlurmError: the holder may be in a Slurm job, and Slurm does not answer.
    """
    found = holder(paths_of(job), show_job)
    if found is None or found.slurm_job_id == job_id:
        return "", None
    return str(found), found.slurm_job_id

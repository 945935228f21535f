"""`unbroken gpu`: nvidia-smi inside a running job."""

import os
from typing import Annotated

import typer

from unbroken.cli.locate import RUN_HELP, JobRef, find
from unbroken.cli.options import RunsDir
from unbroken.cli.why import queued_job
from unbroken.errors import SlurmError, UnbrokenError
from unbroken.run_dir.status import read_status
from unbroken.slurm import client
from unbroken.slurm.accounting_rows import parse_tres
from unbroken.slurm.command import clean_environment


def command(
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    every: Annotated[
        int | None, typer.Option("--loop", "-l", help="Again every so many seconds, until Ctrl-C.", min=1)
    ] = None,
    runs_dir: RunsDir = None,
) -> None:
    """What the GPUs of a running job do: nvidia-smi inside its allocation (srun --overlap).

    GPU-Util far below 100 % means that the GPU waits for data: more DataLoader workers, or a larger batch.
    """
    found = find(run)
    job_id = found.job_id if isinstance(found, JobRef) else queued_job(found) or read_status(found.paths).slurm_job_id
    if job_id is None:
        raise UnbrokenError(f"{run} has no Slurm job; where it runs on this machine, call nvidia-smi")
    job = client.show_job(job_id)
    state = (job or {}).get("JobState", "gone")
    if job is None or state != "RUNNING":
        raise UnbrokenError(f"job {job_id} is {state}, so there is nothing to look at; unbroken why {run}")
    if not has_gpu(job):
        raise UnbrokenError(
            f"job {job_id} has no GPU (TRES={job.get('TRES', '?')}); ask for one in the collection: resources.gpu: 1"
        )
    if not client.available("srun"):
        raise SlurmError("srun is not installed on this machine: call this on a login node of the cluster")
    loop = f"-l {every}" if every else ""
    missing = "{ echo 'unbroken: no nvidia-smi on this node' >&2; exit 127; }"
    script = f"command -v nvidia-smi >/dev/null || {missing}; exec nvidia-smi {loop}"
    argv = ["srun", f"--jobid={client.checked_id(job_id)}", "--overlap", "--ntasks=1", "--quiet", "sh", "-c", script]
    os.execvpe("srun", argv, clean_environment())


def has_gpu(job: dict[str, str]) -> bool:
    """Whether the job was given a GPU."""
    return any(key.startswith("gres/gpu") for key in parse_tres(job.get("TRES", "") + "," + job.get("AllocTRES", "")))

"""Who holds a run directory, seen from a login node: there the holder's process cannot be looked at, Slurm can."""

import os
from collections.abc import Callable
from functools import cache

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import SlurmError
from unbroken.run_dir import lease
from unbroken.run_dir.holder import Holder
from unbroken.slurm import client
from unbroken.slurm.states import is_final


def live_holder(paths: RunPaths, has_job: Callable[[Holder], bool] | None = None) -> Holder | None:
    """The process that trains here now; None where there is none, or Slurm has ended its job.

    Only for telling a person: the launcher trusts nothing but the lease. A node that is lost may still train.

    Args:
        has_job: whether Slurm still runs the job of a holder on another machine; default: the controller is asked.
    """
    found = lease.holder(paths)
    if found is None or found.on_this_machine or not found.slurm_job_id or not client.available("scontrol"):
        return found
    return found if (has_job or controller_runs)(found) or not _of_this_cluster(found) else None


def controller_runs(found: Holder) -> bool:
    """Whether the controller has the holder's job as one that has not ended; true where it does not answer."""
    try:
        job = client.show_job(str(found.slurm_job_id))
    except SlurmError:
        return True
    if job is None or is_final(job.get("JobState", "")):
        return False
    return int(job.get("Restarts", 0) or 0) <= found.restart_count


def _of_this_cluster(found: Holder) -> bool:
    """Whether the job's number means the same job here; two clusters may share a file system."""
    return found.slurm_cluster is None or found.slurm_cluster == _cluster_here()


@cache
def _cluster_here() -> str | None:
    try:
        return os.environ.get("SLURM_CLUSTER_NAME") or client.show_config().get("ClusterName")
    except SlurmError:
        return None

"""What Slurm says about our own job, in the few words that the policy needs."""

import os
import re
from dataclasses import dataclass

from unbroken.launch.policy import SlurmView
from unbroken.launch.say import say

_ENDING = {"COMPLETING", "CANCELLED", "PREEMPTED", "TIMEOUT", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
_NODE_FAILED = {"NodeDown", "SystemFailure"}
"""Reasons of a job whose node Slurm has given up; where only the way to it is broken, the job is warned."""
DEFAULT_LEAD_S = 60
WARNED_EARLIER_S = 60
"""So much before the time asked for the warning may come (sbatch's manual; seen: 30)."""
REQUEUES_IN_GRACE = (24, 11)
"""From here on Slurm itself requeues a job that ends within its grace time (measured: 22.05 does not)."""


@dataclass(frozen=True)
class Job:
    """Our job when the attempt began."""

    id: str
    restart_count: int = 0
    left_s: float | None = None
    """Until the time limit, by Slurm's own clock; None where unlimited or unknown."""
    answered: bool = False
    mem_mb: int | None = None
    partition: str | None = None


def ask(job_id: str) -> dict[str, str] | None:
    """``scontrol show job``, tried twice since a signal to the whole step may end the first."""
    from unbroken.errors import SlurmError
    from unbroken.slurm.client import SlurmMissing, show_job

    for last in (False, True):
        try:
            return show_job(job_id)
        except SlurmMissing:
            return None
        except SlurmError as error:
            if last:
                say(f"Slurm does not tell about job {job_id}: {error}")
    return None


def own_job() -> Job | None:
    """The Slurm job that this process runs in."""
    job_id = os.environ.get("SLURM_JOB_ID")
    if not job_id:
        return None
    answer = ask(job_id)
    if answer is None:
        return Job(job_id, restart_count=_number(os.environ.get("SLURM_RESTART_COUNT")), left_s=_left_by_environment())
    memory = re.search(r"\bmem=(\d+(?:\.\d+)?)([KMGT]?)", answer.get("AllocTRES") or answer.get("TRES") or "")
    scale = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}
    mem_mb = int(float(memory[1]) * scale[memory[2]]) if memory else None
    return Job(job_id, _number(answer.get("Restarts")), _left(answer), True, mem_mb, answer.get("Partition"))


def view(job: Job | None, margin_s: float) -> SlurmView | None:
    """Our job as it is now; None where there is none or nobody answers.

    Args:
        margin_s: so long before its time limit a job is warned, or stopped by the launcher.
    """
    answer = ask(job.id) if job is not None else None
    if job is None or answer is None:
        return None
    left = _left(answer)
    ending = answer.get("JobState", "") in _ENDING
    preempted = answer.get("PreemptTime", "None") not in ("None", "Unknown", "")
    near = margin_s if ending or preempted else margin_s + WARNED_EARLIER_S
    if job.answered:
        requeued = _number(answer.get("Restarts")) > job.restart_count
    else:  # not known: while it saves, a requeued job still has its old end time, a cancelled one that of now
        requeued = ending and _in_the_future(answer.get("EndTime", ""))
    return SlurmView(
        job_id=job.id,
        state=answer.get("JobState", ""),
        preempted=preempted,
        ending=ending,
        at_time_limit=answer.get("Reason") == "TimeLimit" or (left is not None and left <= near),
        node_failed=answer.get("JobState") == "NODE_FAIL" or answer.get("Reason") in _NODE_FAILED,
        requeued_already=requeued,
        requeued_at_its_end=preempted and not ending and _requeued_at_its_end(answer),
    )


def _requeued_at_its_end(answer: dict[str, str]) -> bool:
    """Whether Slurm requeues a job that ends within its grace time: seen with 24.11, and not with 22.05."""
    from unbroken.errors import SlurmError
    from unbroken.slurm.client import partition, show_config

    try:
        config = show_config()
        version = re.match(r"(\d+)\.(\d+)", config.get("SLURM_VERSION", ""))
        if not version or (int(version[1]), int(version[2])) < REQUEUES_IN_GRACE:
            return False
        if config.get("PreemptType") != "preempt/partition_prio" or answer.get("Requeue") != "1":
            return False
        return partition(answer.get("Partition", "")).get("PreemptMode") == "REQUEUE"
    except SlurmError:
        return False


def _in_the_future(stamp: str) -> bool:
    """Whether a time of Slurm's lies clearly ahead; False for Unknown and the like."""
    from datetime import datetime, timedelta

    try:
        end = datetime.fromisoformat(stamp).astimezone()
    except ValueError:
        return False
    return end > datetime.now().astimezone() + timedelta(seconds=5)


def warning_lead_s(resources: dict[str, object]) -> float:
    """Seconds between the warning signal and the time limit, as asked of sbatch by ``--signal=...@N``."""
    found = re.search(r"--signal[= ]\S*@(\d+)", str(resources.get("slurm_extra", "")))
    return float(found[1]) if found else DEFAULT_LEAD_S


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _left(answer: dict[str, str]) -> float | None:
    limit, run = _seconds(answer.get("TimeLimit", "")), _seconds(answer.get("RunTime", ""))
    return None if limit is None or run is None else limit - run


def _left_by_environment() -> float | None:
    end = os.environ.get("SLURM_JOB_END_TIME", "")
    if not end.isdigit():
        return None
    import time

    return int(end) - time.time()


def _seconds(text: str) -> float | None:
    """``1-02:03:04`` -> seconds; None for UNLIMITED and anything else."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", text)
    if not found:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)

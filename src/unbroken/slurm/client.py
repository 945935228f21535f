"""The one client for the Slurm commands: show_job, queue, accounting, requeue, release, cancel and what they need.

Every call is one process, has a timeout and takes no shell. Each raises SlurmMissing, SlurmUnreachable (ask again
later) or SlurmRefused, all of them SlurmError.
"""

import re
import shutil
from collections.abc import Iterable, Sequence

from unbroken.errors import SlurmError
from unbroken.slurm.accounting_rows import FIELDS as ACCOUNTING_FIELDS
from unbroken.slurm.accounting_rows import SEPARATOR, AccountingRow, parse_accounting
from unbroken.slurm.command import (
    AccountingDisabled,
    SlurmMissing,
    SlurmRefused,
    SlurmUnreachable,
    UnknownJob,
    run,
)
from unbroken.slurm.parse import QUEUE_FORMAT, QueuedJob, parse_config, parse_queue, parse_records

__all__ = [
    "AccountingDisabled",
    "AccountingRow",
    "QueuedJob",
    "SlurmError",
    "SlurmMissing",
    "SlurmRefused",
    "SlurmUnreachable",
    "UnknownJob",
    "accounting",
    "available",
    "cancel",
    "partition",
    "queue",
    "release",
    "requeue",
    "send_signal",
    "show_config",
    "show_job",
    "show_jobs",
    "version",
]

MOST_IDS_PER_CALL = 1000
"""Above it, squeue is asked for everything and the answer is filtered: one argument may not exceed 128 KiB."""
_JOB_ID = re.compile(r"\d+(\+\d+)?(_(\d+|\[[\d,%-]+\]|\*))?")
_SIGNAL = re.compile(r"[A-Z0-9]{1,12}")


def available(command: str = "squeue") -> bool:
    """Whether ``command`` is on PATH; says nothing about the controller."""
    return shutil.which(command) is not None


def version() -> str:
    """The version of the Slurm commands here, for example ``22.05.8``."""
    return run(["sinfo", "--version"]).strip().removeprefix("slurm-wlm").removeprefix("slurm").strip()


def show_job(job_id: str | int) -> dict[str, str] | None:
    """What the controller knows of one job (of an array's parent id: of its first task), by Slurm's own keys.

    Values are verbatim: ``JobState``, ``PreemptTime`` (``None`` as text where unset), ``Restarts``, ``ExitCode``
    (``N:M``), ``Reason``. None when the controller does not know the job: purged after MinJobAge, or never there.
    """
    records = show_jobs(job_id)
    wanted = str(job_id)
    return next((record for record in records if record.get("JobId") == wanted), records[0] if records else None)


def show_jobs(job_id: str | int) -> list[dict[str, str]]:
    """As ``show_job``, one record for each task of an array; empty when the job is unknown."""
    try:
        text = run(["scontrol", "show", "job", checked_id(job_id)])
    except UnknownJob:
        return []
    return parse_records(text)


def show_config() -> dict[str, str]:
    """slurm.conf as the controller has it, by key; values verbatim."""
    return parse_config(run(["scontrol", "show", "config"]))


def partition(name: str) -> dict[str, str]:
    """What the controller knows of one partition, by Slurm's own keys."""
    records = parse_records(run(["scontrol", "show", "partition", name]))
    return records[0] if records else {}


def requeue(job_id: str | int) -> None:
    """Put a running or ending job back into the queue under the same id."""
    run(["scontrol", "requeue", checked_id(job_id)])


def release(job_id: str | int) -> None:
    """Let a held job start."""
    run(["scontrol", "release", checked_id(job_id)])


def cancel(job_ids: Iterable[str | int], *, waiting: bool = False) -> None:
    """Cancel jobs (``waiting``: only those that wait in the queue); those that are gone already are no error."""
    only = ["--state=PENDING"] if waiting else []
    for batch in _batches([checked_id(job_id) for job_id in job_ids]):
        try:
            run(["scancel", *only, *batch])
        except UnknownJob:
            continue


def send_signal(job_id: str | int, signal: str) -> None:
    """Send ``signal`` (``USR1``, ``TERM``) to every job step, as Slurm's own warning does; not to the batch shell."""
    name = signal.upper().removeprefix("SIG")
    if not _SIGNAL.fullmatch(name):
        raise SlurmRefused(f"{signal!r} is not a signal name: use USR1, USR2, TERM or INT")
    run(["scancel", f"--signal={name}", checked_id(job_id)])


def queue(job_ids: Iterable[str | int] | None = None, me: bool = False) -> list[QueuedJob]:
    """Jobs in the controller, by one squeue call, one entry for each array task.

    Args:
        job_ids: only these, in every state that the controller still has; unknown ids are left out, never an error.
            An array's parent id stands for all of its tasks. None: every pending, running and ending job.
        me: only the jobs of the calling user.
    """
    argv = ["squeue", "--noheader", "--array", f"--format={QUEUE_FORMAT}"]
    if me:
        argv.append("--me")
    if job_ids is None:
        return parse_queue(run(argv))
    wanted = {checked_id(job_id) for job_id in job_ids}
    if not wanted:
        return []
    argv.append("--states=all")
    if len(wanted) <= MOST_IDS_PER_CALL:
        argv.append(f"--jobs={','.join(sorted(wanted))}")
    try:
        jobs = parse_queue(run(argv))
    except UnknownJob:  # squeue says so, and exits 1, for a single id that is purged
        return []
    return [job for job in jobs if wanted & {job.job_id, job.raw_id, job.job_id.split("_")[0]}]


def accounting(job_ids: Iterable[str | int]) -> list[AccountingRow]:
    """Every accounting row of these jobs: parent, batch, extern and steps of every requeue, oldest first.

    No time window limits it (with ``-j`` and no ``-S`` sacct looks at all times, held jobs included).
    """
    ids = sorted({checked_id(job_id) for job_id in job_ids})
    rows: list[AccountingRow] = []
    for batch in _batches(ids):
        options = ["--duplicates", "--noheader", "--parsable2", f"--delimiter={SEPARATOR}"]
        rows += parse_accounting(run(["sacct", *options, f"--format={ACCOUNTING_FIELDS}", f"--jobs={','.join(batch)}"]))
    return rows


def checked_id(job_id: str | int) -> str:
    """``job_id`` as text, when it looks like one: ``36``, ``36_2``, ``36_[3-5%2]``, ``36+1``.

    Raises:
        SlurmRefused: it looks like something else, for example an option.
    """
    text = str(job_id)
    if not _JOB_ID.fullmatch(text):
        raise SlurmRefused(f"{text!r} is not a Slurm job id: expected a number such as 1234 or 1234_5")
    return text


def _batches(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + MOST_IDS_PER_CALL] for start in range(0, len(ids), MOST_IDS_PER_CALL))

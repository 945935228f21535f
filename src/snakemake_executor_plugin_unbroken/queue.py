"""What Slurm says about our jobs at one poll; silence is never taken for an answer."""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from unbroken.errors import SlurmError
from unbroken.slurm import client
from unbroken.slurm.states import is_final


class Watched(NamedTuple):
    """A Slurm job that is waited for."""

    job_id: str
    names: frozenset[str] = frozenset()
    """The comment and the job name that it got from us; empty for a job that a person has submitted."""


class Seen(NamedTuple):
    """What Slurm says of it."""

    state: str
    """In full."""
    reason: str = ""
    """Slurm's code, of a job that waits."""
    started: str = ""
    """ISO 8601 with offset, of a job that runs."""


class Queue:
    """squeue for all jobs together, sacct for those that the controller has purged."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._outage_since: float | None = None

    def states(self, watched: Iterable[Watched]) -> dict[Watched, Seen] | None:
        """How each one is; None while Slurm does not answer.

        Left out is what Slurm does not know, or does not know any more: a controller that died forgets the jobs that it
        took last, gives their numbers to the next ones, and leaves them in accounting as pending or running for ever.
        """
        wanted = list(watched)
        try:
            queued = {job.job_id: job for job in client.queue({job.job_id for job in wanted})}
        except SlurmError as error:
            self._say_outage(error)
            return None
        if self._outage_since is not None:
            self._logger.info(f"Slurm answers again, after {time.monotonic() - self._outage_since:.0f} s.")
            self._outage_since = None
        found = {
            job: Seen(known.state, known.reason, known.starts)
            for job in wanted
            if (known := queued.get(job.job_id)) and not _is_another(known, job)
        }
        gone = [job for job in wanted if job.job_id not in queued]
        try:
            return {**found, **_ended(gone)} if gone else found
        except SlurmError as error:
            # No accounting here, or it is away: the run directory tells how it ended.
            self._logger.debug(f"accounting: {error}")
            return found

    def lives(self, job_id: str) -> bool:
        """Whether the controller has this job as one that runs, ends or waits. Raises SlurmError where it is away."""
        return any(not is_final(job.state) for job in client.queue([job_id]))

    def _say_outage(self, error: SlurmError) -> None:
        if self._outage_since is None:
            self._outage_since = time.monotonic()
            self._logger.warning(f"Slurm does not answer; waiting, no job is given up. ({error})")


def _is_another(known: client.QueuedJob, watched: Watched) -> bool:
    """Whether the number is another job's by now. A site may write a comment or a name of its own, but not both."""
    return bool(watched.names) and watched.names.isdisjoint((known.comment, known.name))


def _ended(watched: list[Watched]) -> dict[Watched, Seen]:
    """How jobs that the controller does not have have ended, as accounting says; the newest attempt of each.

    Accounting keeps old jobs for years, and a number can come again: only rows with our job name count.
    """
    rows = [row for row in client.accounting({job.job_id for job in watched}) if not row.step]
    found = {}
    for job in watched:
        mine = [row for row in rows if row.job_id == job.job_id and (not job.names or row.name in job.names)]
        if mine and mine[-1].tells_the_end:
            found[job] = Seen(mine[-1].state, mine[-1].reason)
    return found

"""What Slurm says about our jobs at one poll; silence is never taken for an answer."""

import time
from typing import Any

from unbroken.errors import SlurmError
from unbroken.slurm import client
from unbroken.slurm.states import is_final


class Queue:
    """squeue for all jobs together, sacct for those that the controller has purged."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._outage_since: float | None = None

    def states(self, job_ids: list[str]) -> dict[str, tuple[str, str]] | None:
        """State and pending reason by job id; unknown ids are left out. None while Slurm does not answer."""
        try:
            found = {job.job_id: (job.state, job.reason) for job in client.queue(job_ids)}
        except SlurmError as error:
            self._say_outage(error)
            return None
        if self._outage_since is not None:
            self._logger.info(f"Slurm answers again, after {time.monotonic() - self._outage_since:.0f} s.")
            self._outage_since = None
        gone = [job_id for job_id in job_ids if job_id not in found]
        if gone:
            try:
                found.update(_accounted(gone))
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


def _accounted(job_ids: list[str]) -> dict[str, tuple[str, str]]:
    """Final states, from accounting, of jobs that the controller has purged; the newest attempt of each."""
    return {row.job_id: (row.state, row.reason) for row in client.accounting(job_ids) if not row.step}

"""Live Slurm jobs that an earlier, dead Snakemake has left: to be waited for, not submitted again."""

import threading
from pathlib import Path

from unbroken.slurm.command import run
from unbroken.slurm.parse import FIELD, RECORD

_FORMAT = RECORD + FIELD.join(["%i", "%Z", "%k"])


class LiveJobs:
    """One look at the queue per Snakemake call: a job that was there before us is an earlier call's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], str] | None = None

    def find(self, comment: str, workdir: Path) -> str | None:
        """The live job with this comment and working directory, handed out once.

        Raises:
            SlurmError: the queue cannot be read; submitting blindly could put a second job behind the first.
        """
        with self._lock:
            if self._found is None:
                # Without --states, squeue shows the pending, running and ending ones: exactly the live ones.
                self._found = read_live_jobs(run(["squeue", "--noheader", "--me", f"--format={_FORMAT}"]))
            return self._found.pop((comment, str(workdir.resolve())), None)


def read_live_jobs(text: str) -> dict[tuple[str, str], str]:
    """Job ids by (comment, working directory), from a squeue answer in our format."""
    found: dict[tuple[str, str], str] = {}
    for record in text.split(RECORD)[1:]:
        job_id, workdir, comment = record.rstrip("\n").split(FIELD, 2)
        found[comment.strip(), str(Path(workdir).resolve())] = job_id.strip()
    return found

"""What is done with jobs that Slurm alone would leave lying: held after a fault of their node, or running without life.

A running job's launcher touches its lease every few seconds. Where that stops, the node hangs, or the controller has
died and lost how the job ended: Slurm then calls it running until its time limit (seen with 22.05).
"""

import time
from collections import Counter
from datetime import datetime
from typing import Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from snakemake_executor_plugin_unbroken.jobs import paths_of, run_of
from snakemake_executor_plugin_unbroken.judging import SILENCE_LIMIT_S
from unbroken.errors import SlurmError
from unbroken.run_dir.lease import last_beat
from unbroken.slurm import client

LOOKS = 10
"""So often a job is looked at before it counts as dead: while a file system hangs nobody can, and all seem dead."""
CLOCKS_S = 120.0
"""The clocks of a node and of the controller may differ by so much."""


def is_foreign(info: SubmittedJobInfo) -> bool:
    """Whether a person has submitted it: waited for, and not ours to release or cancel."""
    return bool((info.aux or {}).get("foreign"))


class Interventions:
    """The counts, so that nothing is tried for ever, and the commands."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._releases: Counter[tuple[Any, int]] = Counter()
        """By job and the step that its run had reached: after progress a job may be released again."""
        self._beats: dict[Any, tuple[object, float, float]] = {}
        """By job: the last sign of life, when it was last looked at, and for how long it had not changed then."""
        self._cancelled: set[tuple[Any, str]] = set()

    def releases(self, job: Any, step: int) -> int:
        """How often the job was released since its run reached ``step``."""
        return self._releases[job, step]

    def release(self, info: SubmittedJobInfo, message: str) -> None:
        """Let a held job start."""
        self._releases[info.job, run_of(info.job)[0].global_step] += 1
        self._do(lambda: client.release(info.external_jobid), message)

    def silent_s(self, info: SubmittedJobInfo, state: str | None, started: str) -> float:
        """For how long a running job has given no sign of life; 0.0 where its launcher has not begun.

        Args:
            started: when Slurm started the job, ISO 8601 with offset.
        """
        beat = last_beat(paths_of(info.job)) if state == "RUNNING" and not is_foreign(info) else None
        if beat is None or beat[0].slurm_job_id != info.external_jobid or _is_older(beat[0].since, started):
            self._beats.pop(info.job, None)
            return 0.0
        now = time.monotonic()
        sign, looked, silent = self._beats.get(info.job, (None, now, 0.0))
        silent = silent + min(now - looked, SILENCE_LIMIT_S / LOOKS) if sign == beat[1] else 0.0
        self._beats[info.job] = (beat[1], now, silent)
        return silent

    def cancel_silent(self, info: SubmittedJobInfo, message: str) -> None:
        """Cancel a job without life; when it has ended, its run is submitted again."""
        if self._do(lambda: client.cancel([info.external_jobid]), message):
            self._cancelled.add((info.job, info.external_jobid))

    def was_cancelled(self, info: SubmittedJobInfo) -> bool:
        """Whether we have cancelled it, and no person."""
        return (info.job, info.external_jobid) in self._cancelled

    def take_away(self, info: SubmittedJobInfo) -> bool:
        """Cancel a job that waits to train a finished run again; False where it may have started already."""
        if is_foreign(info):
            return False
        try:
            client.cancel([info.external_jobid], waiting=True)
        except SlurmError:
            return False
        return run_of(info.job)[1]

    def _do(self, action: Any, message: str) -> bool:
        try:
            action()
        except SlurmError as error:
            self._logger.warning(f"{message}? Slurm says: {error}")
            return False
        self._logger.warning(message)
        return True


def _is_older(since: str, started: str) -> bool:
    """Whether a lease was taken before this start of the job, or that cannot be told."""
    try:
        begun, start = datetime.fromisoformat(since), datetime.fromisoformat(started)
        return (start - begun).total_seconds() > CLOCKS_S
    except (ValueError, TypeError):
        return True

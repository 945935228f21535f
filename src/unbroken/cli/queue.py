"""The user's jobs in the queue, matched to runs. Works without Slurm: the queue is then empty and says why."""

import os
import re
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED"})
_COMMENT = re.compile(r"_wildcards_(?P<slug>.+)_(?P<setting>[0-9a-f]{12})_(?P<seed>\d+)")


def known_queue() -> dict[str, Any]:
    """``{"jobs": [job, ...], "why_not": None, "asked": <time>}`` from one squeue call; jobs as plain dictionaries.

    ``why_not`` is a sentence where Slurm is there and did not answer, and the empty string where there is no Slurm.
    """
    if not any(os.access(f"{folder}/squeue", os.X_OK) for folder in os.environ.get("PATH", "").split(os.pathsep)):
        return {"jobs": [], "why_not": ""}
    from dataclasses import asdict

    from unbroken.errors import SlurmError
    from unbroken.slurm import client

    asked = time.time()
    try:
        return {"jobs": [asdict(job) for job in client.queue(me=True)], "why_not": None, "asked": asked}
    except client.SlurmMissing:
        return {"jobs": [], "why_not": ""}
    except SlurmError as error:
        return {"jobs": [], "why_not": str(error)}


def run_of(comment: str) -> tuple[str, str, int] | None:
    """(slug, setting, seed) of a job by the comment that the executor gives it."""
    match = _COMMENT.search(comment)
    return (match["slug"], match["setting"], int(match["seed"])) if match else None


class Queue:
    """Which job belongs to which run: by the job id in run_status.json, else by the job's comment."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.why_not: str | None = known["why_not"]
        self.asked: float = known.get("asked", time.time())
        """What has begun later it cannot know."""
        self.by_id: dict[str, Mapping[str, Any]] = {}
        self._by_run: dict[tuple[str, str, int], Mapping[str, Any]] = {}
        here = os.path.realpath(os.getcwd())
        real = cache(os.path.realpath)
        for job in known["jobs"]:
            self.by_id[job["job_id"]] = self.by_id[job["raw_id"]] = job
            run = run_of(job["comment"])
            if run and real(job["workdir"]) == here:
                self._by_run[run] = job

    def job(self, slug: str, setting: str, seed: int, job_id: str | None) -> Mapping[str, Any] | None:
        """The waiting, running or ending job of a run; None when there is none."""
        return self._by_run.get((slug, setting, seed)) or (self.by_id.get(job_id) if job_id else None)

"""Runs whose run_status.json says running although nobody trains them: their launcher was killed before it could write.

Looked for among the runs that claim to be running alone, so that the thousands of others cost nothing.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from unbroken.cli.queue import WAITING, Queue
from unbroken.collection.run_dir import RunPaths

if TYPE_CHECKING:
    from unbroken.run_dir.holder import Holder
    from unbroken.slurm.accounting_rows import AccountingRow

_ALIVE = frozenset({"running", "pending", "held", "bad_partition"})
"""Verdicts that accounting gives on a job that it has not yet seen end."""


def look_closer(row: dict[str, Any], paths: RunPaths, queue: Queue) -> None:
    """Correct a row that says running where that is no longer so: whatever was written since, completed, or stopped."""
    from unbroken.errors import RunDirectoryError
    from unbroken.run_dir.status import read_status
    from unbroken.slurm.holders import live_holder

    try:
        if live_holder(paths, lambda found: _has_job(found, row, paths, queue)) is not None:
            return
        newest = read_status(paths)  # an attempt writes how it ended, then lets go of the directory
    except (RunDirectoryError, OSError):
        return
    if newest.status != "running":
        row.update(asdict(newest))
    else:
        row["status"] = "completed" if paths.result.is_file() else "stopped"


def _has_job(found: "Holder", row: Mapping[str, Any], paths: RunPaths, queue: Queue) -> bool:
    """Whether the holder's job may still run; the queue shows our own jobs alone, as they were when it was asked."""
    if queue.why_not is not None or _seconds(row.get("started_at")) >= queue.asked:
        return True
    job = queue.by_id.get(str(found.slurm_job_id))
    return job["state"] not in WAITING if job else os.stat(paths.status).st_uid != os.getuid()


def _seconds(time: Any) -> float:
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return 0.0


def explain(stopped: Sequence[dict[str, Any]], runs: str) -> None:
    """Say of every stopped row what became of it, in the words of `unbroken why`; sacct is asked once for all jobs."""
    known = _accounting({row["slurm_job_id"] for row in stopped if row.get("slurm_job_id")})
    for row in stopped:
        kind, words = _verdict(row, runs, known)
        row["verdict"] = kind
        if "pending_reason" not in row:  # else it waits in the queue again, and that is told
            row["status"], row["reason"] = "cancelled" if kind == "cancelled" else "stopped", words


def _accounting(job_ids: set[str]) -> "list[AccountingRow]":
    from unbroken.errors import SlurmError
    from unbroken.slurm import client

    try:
        return client.accounting(job_ids) if job_ids and client.available("sacct") else []
    except SlurmError:
        return []


def _verdict(row: Mapping[str, Any], runs: str, known: "list[AccountingRow]") -> tuple[str, str]:
    from dataclasses import fields, replace

    from unbroken.run_dir.status import RunStatus
    from unbroken.slurm.diagnose import diagnose
    from unbroken.slurm.verdict import Evidence

    names = {field.name for field in fields(RunStatus)}
    status = RunStatus(**{**{key: value for key, value in row.items() if key in names}, "status": "running"})
    name = f"{row['collection']}/{row['setting']}/{row['seed']}"
    paths = RunPaths.of(runs, row["collection"], row["setting"], row["seed"])
    has_checkpoint = paths.last.is_file() or paths.previous.is_file()
    evidence = Evidence(name, f"snakemake {row['collection']}", status, has_checkpoint=has_checkpoint)
    judged = diagnose(replace(evidence, job_id=status.slurm_job_id, rows=known))
    verdict = diagnose(evidence) if judged.kind in _ALIVE else judged
    return verdict.kind, verdict.about(name)

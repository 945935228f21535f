"""The rows of `unbroken status`: one a run, joined from the collection, run_status.json and the queue."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from unbroken.cli.project import Statuses
from unbroken.cli.queue import Queue
from unbroken.cli.speed import seconds_left, tail_events

MOST_SPEEDS = 1000
"""So many running runs get their events read for the time they still need."""

_WAITING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED"}


def collection_rows(
    slug: str, known: Mapping[str, Any], runs: str, statuses: Statuses, queue: Queue
) -> Iterator[dict[str, Any]]:
    """One dictionary a run, those of the collection in its order, then directories that it no longer names."""
    statuses = dict(statuses)
    now = time.time()
    speeds = MOST_SPEEDS
    has_jobs = bool(queue.by_id) or queue.why_not is None
    expected = ((setting, label, seed) for setting, label in known["settings"] for seed in known["seeds"])
    for setting, label, seed in expected:
        status = statuses.pop((setting, seed), None)
        row = _row(slug, setting, label, seed, status)
        yield row
        if row["state"] == "completed":
            continue
        _add_job(row, queue, has_jobs)
        if status:
            _add_age(row, runs, now, speeds > 0)
            speeds -= row["state"] == "running"
    for (setting, seed), status in sorted(statuses.items()):
        row = _row(slug, setting, "(not in the collection any more)", seed, status)
        row["extra"] = True
        yield row


def _row(slug: str, setting: str, label: str, seed: int, status: Mapping[str, Any] | None) -> dict[str, Any]:
    get = (status or {}).get
    return {
        "collection": slug,
        "setting": setting,
        "label": label,
        "seed": seed,
        "state": get("status", "pending") if "unreadable" not in (status or {}) else "unreadable",
        "step": get("global_step", 0),
        "total_steps": get("total_steps"),
        "attempt": get("attempt", 0),
        "resubmits": get("resubmit_count", 0),
        "last_signal": get("last_signal"),
        "job_id": get("slurm_job_id"),
        "node": get("host"),
        "reason": get("unreadable") or get("reason"),
    }


def _add_job(row: dict[str, Any], queue: Queue, has_jobs: bool) -> None:
    job = queue.job(row["collection"], row["setting"], row["seed"], row["job_id"])
    if job is None:
        # A run started outside Slurm, or by another user's jobs, has no job here: only our own id counts as lost.
        row["job_state"] = None
        if row["state"] == "running" and row["job_id"] and has_jobs:
            row["reason"] = "its job is not in the queue any more: unbroken why tells"
        return
    row["job_id"], row["job_state"] = job["job_id"], job["state"]
    row["node"] = job["nodes"] or row["node"]
    if job["state"] in _WAITING:
        from unbroken.slurm.reasons import explain

        reason = explain(job["reason"])
        row["pending_reason"] = reason.code
        verb = "held" if reason.kind == "held" else "queued"
        row["reason"] = f"{verb}: {reason.words}"


def _add_age(row: dict[str, Any], runs: str, now: float, with_speed: bool) -> None:
    folder = f"{runs}/{row['collection']}/{row['setting']}/seed_{row['seed']}"
    try:
        row["checkpoint_age_s"] = max(0.0, now - os.stat(f"{folder}/checkpoints/last.pt").st_mtime)
    except OSError:
        row["checkpoint_age_s"] = None
    if with_speed and row["state"] == "running":
        left = seconds_left(tail_events(f"{folder}/events.jsonl"), row["total_steps"])
        row["eta_s"] = left
        row["eta"] = datetime.fromtimestamp(now + left, UTC).isoformat(timespec="seconds") if left is not None else None


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by state, steps done and in all, settings without a single finished or started run."""
    mine = [row for row in rows if not row.get("extra")]
    states = Counter(row["state"] for row in mine)
    touched = {row["setting"] for row in mine if row["state"] != "pending"}
    pending = list(dict.fromkeys(row["label"] for row in mine if row["setting"] not in touched))
    return {
        "runs": len(mine),
        "states": dict(states),
        "attempts": sum(row["attempt"] for row in mine),
        "resubmits": sum(row["resubmits"] for row in mine),
        "pending_settings": pending,
    }

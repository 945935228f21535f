"""The rows of `unbroken status`: one a run, joined from the collection, run_status.json and the queue."""

import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from unbroken.cli.project import Statuses
from unbroken.cli.queue import WAITING, Queue
from unbroken.cli.speed import seconds_left, tail_events

_HERE = os.uname().nodename
MOST_SPEEDS = 1000
"""So many running runs get their events read for the time they still need."""


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
        state = row.setdefault("status", "pending")
        if state != "completed":
            here = row.get("host") == _HERE
            _add_job(row, queue, has_jobs)
            if state == "running":
                _check_alive(row, runs, queue, here)
                speeds -= 1
            if status:
                _add_age(row, runs, now, speeds >= 0)
        yield row
    for (setting, seed), status in sorted(statuses.items()):
        row = _row(slug, setting, "(not in the collection any more)", seed, status)
        row["extra"] = True
        if row["status"] == "running":
            _check_alive(row, runs, queue, True)
        yield row


def _row(slug: str, setting: str, label: str, seed: int, status: dict[str, Any] | None) -> dict[str, Any]:
    """run_status.json itself with the run's names added; not a copy, ten thousand of them cost."""
    row: dict[str, Any] = {"status": "pending"} if status is None else status
    row["collection"], row["setting"], row["label"], row["seed"] = slug, setting, label, seed
    if "unreadable" in row:
        row["status"], row["reason"] = "unreadable", row["unreadable"]
    return row


def _add_job(row: dict[str, Any], queue: Queue, has_jobs: bool) -> None:
    job = queue.job(row["collection"], row["setting"], row["seed"], row.get("slurm_job_id"))
    if job is None:
        # A run started outside Slurm, or by another user's jobs, has no job here: only our own id counts as lost.
        if row["status"] == "running" and row.get("slurm_job_id") and has_jobs:
            row["reason"] = "its job is not in the queue any more: unbroken why tells"
        return
    row["slurm_job_id"], row["job_state"] = job["job_id"], job["state"]
    row["host"] = job["nodes"] or row.get("host")
    if job["state"] in WAITING:
        from unbroken.slurm.reasons import explain

        reason = explain(job["reason"])
        row["pending_reason"] = reason.code
        verb = "held" if reason.kind == "held" else "queued"
        row["reason"] = f"{verb}: {reason.words}"
    elif job["state"] == "COMPLETING" and row["status"] == "running":
        row["reason"] = "its job is ending"


def _check_alive(row: dict[str, Any], runs: str, queue: Queue, here: bool) -> None:
    """A run is believed where Slurm runs its job; here its process can be looked for as well."""
    if here or row.get("job_state", "PENDING") in WAITING:
        from unbroken.cli.lost import look_closer
        from unbroken.collection.run_dir import RunPaths

        look_closer(row, RunPaths.of(runs, row["collection"], row["setting"], row["seed"]), queue)


def _add_age(row: dict[str, Any], runs: str, now: float, with_speed: bool) -> None:
    folder = f"{runs}/{row['collection']}/{row['setting']}/seed_{row['seed']}"
    try:
        row["checkpoint_age_s"] = max(0.0, now - os.stat(f"{folder}/checkpoints/last.pt").st_mtime)
    except OSError:
        row["checkpoint_age_s"] = None
    if with_speed and row["status"] == "running":
        left = seconds_left(tail_events(f"{folder}/events.jsonl"), row.get("total_steps"))
        row["eta_s"] = left
        row["eta"] = datetime.fromtimestamp(now + left, UTC).isoformat(timespec="seconds") if left is not None else None


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by state, attempts and resubmits in all, the labels of settings of which nothing has been started."""
    states: dict[str, int] = {}
    attempts = resubmits = 0
    touched: set[str] = set()
    pending: dict[str, str] = {}
    for row in rows:
        if "extra" in row:
            continue
        state = row["status"]
        states[state] = states.get(state, 0) + 1
        attempts += row.get("attempt") or 0
        resubmits += row.get("resubmit_count") or 0
        if state == "pending":
            pending[row["setting"]] = row["label"]
        else:
            touched.add(row["setting"])
    return {
        "runs": sum(states.values()),
        "states": states,
        "attempts": attempts,
        "resubmits": resubmits,
        "pending_settings": [label for setting, label in pending.items() if setting not in touched],
    }

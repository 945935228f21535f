"""Collect the evidence about one run, or one job: files first, Slurm second; works without Slurm."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import RunDirectoryError, SlurmError
from unbroken.run_dir.events import read_events
from unbroken.run_dir.status import RunStatus, read_status
from unbroken.slurm import client
from unbroken.slurm.contract import requeue_wait_s
from unbroken.slurm.holders import live_holder
from unbroken.slurm.verdict import Evidence

LOG_BYTES = 65_536
"""So much of the end of a log is read."""
_CONTROLLER = "the controller's view of the job"
_HASH = re.compile(r"[0-9a-f]{12}")

_T = TypeVar("_T")


def about_run(name: str, paths: RunPaths, command: str, queued_job: str | None = None) -> Evidence:
    """The evidence about a run.

    Args:
        name: how the run is called in the sentences.
        command: what starts it again.
        queued_job: a job of this run that the queue knows and run_status.json does not name (yet).
    """
    notes: list[str] = []
    status = _status(paths, notes)
    events = list(read_events(paths))
    job_id = queued_job or status.slurm_job_id
    others = [str(event["slurm_job_id"]) for event in events if event.get("slurm_job_id")]
    job, rows = _ask_slurm(job_id, [*others, *([job_id] if job_id else [])], notes)
    log = _log(paths, status.attempt, job)
    holder = live_holder(paths)
    return Evidence(
        name=name,
        command=command,
        status=status,
        events=events,
        has_result=paths.result.is_file(),
        has_checkpoint=paths.last.is_file() or paths.previous.is_file(),
        identity_problem=identity_problem(paths),
        lease=str(holder) if holder else None,
        job_id=job_id,
        job=job,
        controller_answered=_answered(notes),
        requeue_wait_s=_requeue_wait(job),
        rows=rows,
        log=str(log) if log else None,
        log_tail=_tail(log),
        notes=tuple(notes),
    )


def about_job(job_id: str) -> Evidence:
    """The evidence about a Slurm job that belongs to no known run; its log is its own output file."""
    notes: list[str] = []
    job, rows = _ask_slurm(job_id, [job_id], notes)
    output = (job or {}).get("StdOut")
    log = Path(output) if output and os.path.isfile(output) else None
    return Evidence(
        name=f"job {job_id}",
        job_id=job_id,
        job=job,
        controller_answered=_answered(notes),
        requeue_wait_s=_requeue_wait(job),
        rows=rows,
        log=str(log) if log else None,
        log_tail=_tail(log),
        notes=tuple(notes),
    )


def identity_problem(paths: RunPaths) -> str | None:
    """Why config_identity.json says that the directory belongs to another run than its path; None where it fits."""
    try:
        value = json.loads(paths.identity.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return f"{paths.identity} cannot be read ({error})"
    root = paths.root.resolve()
    there = {
        "collection": root.parent.parent.name,
        "setting": root.parent.name,
        "seed": root.name.removeprefix("seed_"),
    }
    if not isinstance(value, dict) or not _HASH.fullmatch(there["setting"]):
        return None
    said = {
        "collection": str(value.get("collection")),
        "setting": str(value.get("config_hash"))[: len(there["setting"])],
        "seed": str(value.get("seed")),
    }
    wrong = [f"{key} {said[key]!r} instead of {there[key]!r}" for key in there if said[key] != there[key]]
    return f"config_identity.json says {', '.join(wrong)}" if wrong else None


def _status(paths: RunPaths, notes: list[str]) -> RunStatus:
    try:
        return read_status(paths)
    except (RunDirectoryError, OSError) as error:
        notes.append(str(error))
        return RunStatus()


def _ask_slurm(job_id: str | None, all_ids: Sequence[str], notes: list[str]) -> tuple[Any, list[client.AccountingRow]]:
    if not all_ids or not job_id:
        return None, []
    job = _or_none(lambda: client.show_job(job_id), _CONTROLLER, notes)
    rows = _or_none(lambda: client.accounting(all_ids), "accounting", notes)
    return job, rows or []


def _answered(notes: Sequence[str]) -> bool:
    return not any(note.startswith(_CONTROLLER) for note in notes)


def _requeue_wait(job: Mapping[str, str] | None) -> int | None:
    """How long a job that waits for a set time has to, where a requeue has set it."""
    if job is None or job.get("Reason") != "BeginTime" or job.get("Restarts", "0") == "0":
        return None
    config = _or_none(client.show_config, "how long it waits", [])
    return requeue_wait_s(config) if config else None


def _or_none(question: Callable[[], _T], what: str, notes: list[str]) -> _T | None:
    try:
        return question()
    except client.SlurmMissing:
        notes.append(f"{what}: there is no Slurm here")
    except client.AccountingDisabled:
        notes.append(f"{what}: this cluster keeps none (AccountingStorageType=none)")
    except SlurmError as error:
        notes.append(f"{what}: {error}")
    return None


def _log(paths: RunPaths, attempt: int, job: Any) -> Path | None:
    """The newest attempt's log; else the job's own output, where the trainer never started."""
    if attempt and paths.attempt_log(attempt).is_file():
        return paths.attempt_log(attempt)
    output = (job or {}).get("StdOut")
    return Path(output) if output and os.path.isfile(output) else None


def _tail(log: Path | None) -> str:
    if log is None:
        return ""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""

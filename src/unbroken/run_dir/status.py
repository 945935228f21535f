"""run_status.json: the mutable control state of one run.

Its writers take turns and never meet: the launcher before and after an attempt, the trainer during it.
"""

import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.files import dump_json, read_json, utc_now, write_atomic, write_json

State = Literal["pending", "running", "preempted", "completed", "failed"]
SCHEMA_VERSION = 1
SPARE_BYTES = 8192
"""More than a run_status.json with a long reason has."""


@dataclass(frozen=True)
class RunStatus:
    """One reading of run_status.json; a run that never started has the defaults."""

    schema_version: int = SCHEMA_VERSION
    status: State = "pending"
    reason: str | None = None
    """Why the run is in this state, as a sentence for a person."""
    failure: str | None = None
    """Kind of failure: crash, no_result, out_of_memory, killed, budget, no_progress, early_preemptions."""
    resubmit_count: int = 0
    """Resumable exits so far; compared with max_resubmit_attempts."""
    early_preemptions: int = 0
    """Ends by a signal before the first step; counted apart, they lost nothing."""
    no_progress_count: int = 0
    """Resumable exits in a row at the same global_step."""
    attempt: int = 0
    """Number of the newest attempt; the first is 1."""
    last_signal: str | None = None
    exit_code: int | None = None
    """Of the trainer, not of the launcher; -9 where signal 9 ended it."""
    global_step: int = 0
    """Effective batches committed to a checkpoint."""
    total_steps: int | None = None
    exact: bool = True
    """False once a resume could not promise the same bits (another world size, by permission)."""
    slurm_job_id: str | None = None
    restart_count: int = 0
    """How often Slurm has requeued the job."""
    host: str | None = None
    pid: int | None = None
    call_id: str | None = None
    """The Snakemake call that the newest attempt belongs to."""
    mem_mb_asked: int | None = None
    mem_mb_used: int | None = None
    out_of_memory_count: int = 0
    started_at: str | None = None
    updated_at: str | None = None


_FIELDS = {field.name for field in fields(RunStatus)}


def read_status(paths: RunPaths) -> RunStatus:
    """What run_status.json says; the defaults where it is absent. Keys of a newer version are passed over.

    Raises:
        RunDirectoryError: the file is not a JSON object.
    """
    value = read_json(paths.status)
    if value is None:
        return RunStatus()
    if not isinstance(value, dict):
        raise RunDirectoryError(f"{paths.status} does not hold a JSON object: move it away to go on without it")
    return RunStatus(**{key: item for key, item in value.items() if key in _FIELDS})


def update_status(paths: RunPaths, *, durable: bool = True, from_spare: bool = False, **changes: Any) -> RunStatus:
    """Replace some fields of run_status.json and return the new state.

    Args:
        from_spare: on a full disk use the room that ``keep_spare`` has taken.

    Raises:
        RunDirectoryError: the file there is not a JSON object.
        OSError: it cannot be written; the old one is untouched.
    """
    new = replace(read_status(paths), **changes, updated_at=utc_now())
    try:
        write_json(paths.status, asdict(new), durable)
    except OSError:
        if not from_spare or not paths.status_spare.exists():
            raise
        _write_spare(paths.status_spare, dump_json(asdict(new)))
        os.replace(paths.status_spare, paths.status)
    return new


def keep_spare(paths: RunPaths) -> None:
    """Take the room for one more run_status.json, so that an attempt can tell how it ended when the disk is full."""
    if not paths.status_spare.exists():
        write_atomic(paths.status_spare, b" " * SPARE_BYTES)


def _write_spare(spare: Path, content: bytes) -> None:
    """Write into the blocks that the file has: it becomes shorter, never longer."""
    with open(spare, "r+b") as file:
        file.write(content)
        file.truncate()
        os.fsync(file.fileno())

"""What the run directories of a collection say, read once and without ever failing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbroken.collection import Collection, Run, RunPaths
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.events import read_events
from unbroken.run_dir.files import read_json
from unbroken.run_dir.status import RunStatus, read_status
from unbroken.slurm.holders import live_holder

STATES = ("completed", "running", "preempted", "pending", "failed")
MARKS = {"completed": "●", "running": "▶", "preempted": "◆", "pending": "○", "failed": "✕"}
"""A shape for each state, so that no reader depends on its colour."""


@dataclass(frozen=True)
class Record:
    """One run as it lies on disk."""

    run: Run
    paths: RunPaths
    status: RunStatus
    result: dict[str, Any] | None = None
    """None where the run is not finished."""
    events: list[dict[str, Any]] = field(default_factory=list)
    problems: tuple[str, ...] = ()
    """Files that could not be read, a sentence each."""
    live: bool = False
    """A process holds the run directory now, as far as can be told."""

    @property
    def state(self) -> str:
        """One of STATES; a result makes a run completed whatever its status file says."""
        if self.result is not None:
            return "completed"
        if self.status.status == "running" and not self.live:
            return "preempted"
        told: str = self.status.status
        return told if told in STATES and told != "completed" else "pending"

    @property
    def reason(self) -> str:
        """Why the run is not finished, one line; empty where it is or has not begun."""
        if self.state == "completed":
            return ""
        text = self.status.reason or ""
        if self.status.status == "running" and not self.live:
            text = "the attempt ended without a word (node lost or launcher killed)"
        elif self.status.status == "completed":
            text = "its result.json is gone or cannot be read"
        return " ".join((text or "; ".join(self.problems)).split())

    @property
    def name(self) -> str:
        """The run for a person: its setting's label and its seed."""
        return f"{self.run.label} seed={self.run.seed}"

    @property
    def log(self) -> Path | None:
        """The log of the newest attempt, where there is one."""
        path = self.paths.attempt_log(self.status.attempt)
        return path if path.is_file() else None


def read_record(run: Run, runs_dir: Path, with_events: bool = True) -> Record:
    """One run's record; a file that cannot be read becomes a problem in it, never an exception."""
    paths = run.paths(runs_dir)
    problems: list[str] = []
    status, result = RunStatus(), None
    events: list[dict[str, Any]] = []
    try:
        status = read_status(paths)
    except (RunDirectoryError, OSError, TypeError) as error:
        problems.append(str(error))
    try:
        value = read_json(paths.result)
        if isinstance(value, dict):
            result = value
        elif value is not None:
            problems.append(f"{paths.result} does not hold a JSON object")
    except (RunDirectoryError, OSError) as error:
        problems.append(str(error))
    if with_events:
        try:
            events = list(read_events(paths))
        except (OSError, RecursionError) as error:
            problems.append(str(error))
    live = status.status == "running" and result is None and _is_held(paths)
    return Record(run, paths, status, result, events, tuple(problems), live)


def read_records(collection: Collection, runs_dir: Path, with_events: bool = True) -> Iterator[Record]:
    """The records of every run, in the order of the collection's file."""
    return (read_record(run, Path(runs_dir), with_events) for run in collection.runs())


def _is_held(paths: RunPaths) -> bool:
    try:
        return live_holder(paths) is not None
    except OSError:
        return False

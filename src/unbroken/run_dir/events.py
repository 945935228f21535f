"""events.jsonl: what happened to a run, one JSON object a line, only ever appended."""

import json
import os
from collections.abc import Iterator
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.files import utc_now

EVENTS = frozenset(
    {
        "run_started",
        "resumed",
        "checkpoint_saved",
        "checkpoint_rejected",
        "signal_received",
        "graceful_shutdown",
        "requeued",
        "requeue_refused",
        "run_completed",
        "run_failed",
        "legacy_adopted",
        "identity_refused",
        "lease_taken_over",
        "code_changed",
        "grace_warning",
        "metrics_rows_lost",
        "loss_not_finite",
        "retry_allowed",
    }
)


def append_event(paths: RunPaths, event: str, attempt: int, **details: Any) -> None:
    """Append one event. A line torn by an earlier kill is closed first, so that it costs only itself.

    Raises:
        ValueError: ``event`` is not one of EVENTS.
        OSError: the disk does not take the line.
    """
    if event not in EVENTS:
        raise ValueError(f"unknown event {event!r}; the known ones are {sorted(EVENTS)}")
    record = {"time": utc_now(), "event": event, "attempt": attempt, **details}
    line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
    paths.events.parent.mkdir(parents=True, exist_ok=True)
    with open(paths.events, "a+b") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line
        file.write(line)


def read_events(paths: RunPaths) -> Iterator[dict[str, Any]]:
    """The events in the order in which they were written; torn lines are passed over."""
    try:
        content = paths.events.read_bytes()
    except FileNotFoundError:
        return
    for line in content.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record

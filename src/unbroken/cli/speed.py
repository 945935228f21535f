"""How long a run still needs, from its own speed as events.jsonl tells it."""

import json
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

TAIL_BYTES = 16_384
"""So much of the end of events.jsonl is read: some 80 saves."""


def seconds_left(events: Iterable[dict[str, Any]], total_steps: int | None) -> float | None:
    """Seconds until the last step at the speed since the newest start; None where it cannot be told.

    The speed is that from the first to the last event with a ``global_step`` after the newest run_started or resumed.
    """
    points: list[tuple[float, int]] = []
    for event in events:
        if event.get("event") in {"run_started", "resumed"}:
            points = []
        step = event.get("global_step", event.get("step"))
        if isinstance(step, int):
            points.append((_seconds(event.get("time")), step))
    if not total_steps or len(points) < 2:
        return None
    (first_time, first), (last_time, last) = points[0], points[-1]
    if last <= first or last_time <= first_time:
        return None
    return max(0.0, (total_steps - last) * (last_time - first_time) / (last - first))


def tail_events(path: Path | str) -> list[dict[str, Any]]:
    """The last events of a run; empty where there are none."""
    events = []
    for line in read_tail(path, TAIL_BYTES).splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            events.append(value)
    return events


def read_tail(path: Path | str, most_bytes: int) -> str:
    """The end of a file as text; empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _seconds(time: Any) -> float:
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return 0.0

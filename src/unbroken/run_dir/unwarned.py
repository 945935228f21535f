"""How often attempts of a collection end without a warning, from the events of its runs.

An end is unwarned where the trainer could not save for it: a kill, out of memory, a lost node. A warned stop, a
finished run and a crash (which would come again wherever it was saved) are none. Their hours count all the same.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.events import read_events

PRIOR_HOURS = 4.0
"""What is assumed before anything is known: one unwarned end in so many hours; it counts as if it had been seen."""
MOST_RUNS, MOST_SECONDS = 200, 0.2
"""No more runs are looked at, and no longer: it is asked between two effective batches."""
_WARNED = ("graceful_shutdown", "run_completed", "requeued")
_KILLED = ("killed", "out_of_memory")


@dataclass(frozen=True)
class Observed:
    """Attempts seen so far."""

    ends: int = 0
    """Unwarned ones."""
    hours: float = 0.0
    """Trained, over all attempts."""

    @property
    def mean_hours(self) -> float:
        """Hours between unwarned ends: those seen with the prior."""
        return (self.hours + PRIOR_HOURS) / (self.ends + 1)

    def __str__(self) -> str:
        if not self.hours:
            return f"one unwarned end in {PRIOR_HOURS:g} h assumed"
        return f"one unwarned end in {self.mean_hours:.3g} h ({self.ends} in {self.hours:.3g} h of this collection)"


def observe(collection: Path) -> Observed:
    """Look at the runs of ``<runs>/<collection>``, those of other settings and seeds included."""
    until = time.monotonic() + MOST_SECONDS
    ends, hours = 0, 0.0
    for number, paths in enumerate(_runs(collection)):
        if number == MOST_RUNS or time.monotonic() > until:
            break
        seen = count(read_events(paths))
        ends, hours = ends + seen.ends, hours + seen.hours
    return Observed(ends, hours)


def _runs(collection: Path) -> Iterator[RunPaths]:
    try:
        for setting in os.scandir(collection):
            if setting.is_dir():
                yield from (RunPaths(Path(run.path)) for run in os.scandir(setting.path) if run.name[:5] == "seed_")
    except OSError:
        return


def count(events: Iterable[Mapping[str, Any]]) -> Observed:
    """The attempts of one run; one that is followed by another without an end of its own ended without a word."""
    ends, hours = 0, 0.0
    began: float | None = None
    latest, told = 0.0, False
    for event in events:
        at, name = _seconds(event.get("time")), event.get("event")
        if at is None:
            continue
        if name == "run_started":
            if began is not None:
                ends, hours = ends + (not told), hours + max(latest - began, 0.0) / 3600
            began, told = at, False
        elif name == "run_failed":
            ends, told = ends + (event.get("failure") in _KILLED and not told), True
        elif name in _WARNED:
            told = True
        latest = at
    if began is not None:
        hours += max(latest - began, 0.0) / 3600
    return Observed(ends, hours)


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None

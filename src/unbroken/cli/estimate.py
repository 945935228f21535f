"""What a collection still costs: jobs, hours, disk; measured where a run has finished, else from its limits."""

import os
import re
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from unbroken.collection.model import Collection
from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.events import read_events

SAMPLE = 200
"""So many finished runs, or run directories, are measured."""
_UNIT_MINUTES = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440, "w": 10080}


@dataclass(frozen=True)
class Estimate:
    """Numbers of one collection; None where nothing is known yet."""

    slug: str
    settings: int
    seeds: int
    runs: int
    finished: int
    jobs: int
    """Runs that are not finished: one job each, and one more for each interruption."""
    limit_hours: float | None
    """Time limit of one job."""
    hours: float | None
    """For all the jobs, by the median of the finished runs."""
    measured_runs: int
    run_bytes: int | None
    """Largest run directory so far."""
    disk_bytes: int | None
    """For all runs, what is there already included."""
    missing_bytes: int | None
    free_bytes: int | None


def estimate(collection: Collection, runs_dir: Path) -> Estimate:
    """Look at what is on disk and count the rest."""
    finished = [paths for paths in _paths(collection, runs_dir) if paths.result.is_file()]
    jobs = len(collection) - len(finished)
    seconds = [spent for paths in islice(finished, SAMPLE) if (spent := trained_seconds(paths)) is not None]
    hours = statistics.median(seconds) * jobs / 3600 if seconds else None
    there = [paths.root for paths in _paths(collection, runs_dir) if paths.checkpoints.is_dir()]
    sizes = [folder_bytes(root) for root in there[:SAMPLE]]
    largest = max(sizes, default=None)
    total = largest * len(collection) if largest is not None else None
    return Estimate(
        slug=collection.slug,
        settings=len(collection.settings),
        seeds=len(collection.seeds),
        runs=len(collection),
        finished=len(finished),
        jobs=jobs,
        limit_hours=limit_hours(collection.resources.get("runtime", default_runtime())),
        hours=hours,
        measured_runs=len(seconds),
        run_bytes=largest,
        disk_bytes=total,
        missing_bytes=None if largest is None else largest * (len(collection) - len(there)),
        free_bytes=_free(runs_dir),
    )


def _paths(collection: Collection, runs_dir: Path) -> Iterator[RunPaths]:
    return (run.paths(runs_dir) for run in collection.runs())


def limit_hours(runtime: Any) -> float | None:
    """``90`` (minutes), ``"1h30m"``, ``"2d"`` as hours; None for what is none of these."""
    if isinstance(runtime, int):
        return runtime / 60
    parts = re.findall(r"(\d+)([smhdw])", str(runtime))
    return sum(int(number) * _UNIT_MINUTES[unit] for number, unit in parts) / 60 if parts else None


def default_runtime(profile: Path = Path("profiles/slurm/config.yaml")) -> int | None:
    """Minutes, as the Slurm profile's default-resources give them."""
    try:
        found = re.search(r"^\s*- [\"']?runtime=(\d+)", profile.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError):
        return None
    return int(found[1]) if found else None


def trained_seconds(paths: RunPaths) -> float | None:
    """Time in all attempts of a run together, from its events; waiting between them is not counted."""
    from datetime import datetime

    spans: dict[int, list[datetime]] = {}
    try:
        for event in read_events(paths):
            if isinstance(event.get("attempt"), int) and event.get("event") not in (
                "retry_allowed",
                "lease_taken_over",
            ):
                spans.setdefault(event["attempt"], []).append(datetime.fromisoformat(str(event["time"])))
    except (OSError, ValueError, KeyError):
        return None
    return sum((max(times) - min(times)).total_seconds() for times in spans.values()) if spans else None


def folder_bytes(folder: Path) -> int:
    """Size of everything in a folder; links are not followed."""
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:
                continue
    return total


def _free(folder: Path) -> int | None:
    for place in (folder, *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def size(number: float) -> str:
    """``1.2 GB``."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"

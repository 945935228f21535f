"""Loss curves from metrics.csv, thinned to what a chart can show."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

MOST_POINTS = 300
MOST_BYTES = 20_000_000
"""A longer file is read from its end."""
PREFERRED = ("loss", "train_loss", "training_loss")


@dataclass(frozen=True)
class Curve:
    """One column over steps."""

    column: str
    steps: list[float]
    values: list[float]
    rows: int
    """Logged steps before thinning."""
    whole: bool = True
    """False where only the end of a very long file was read."""

    def value_at(self, step: float) -> float | None:
        """The value at the newest logged step not after ``step``; None before the first."""
        found = None
        for place, value in zip(self.steps, self.values, strict=True):
            if place > step:
                break
            found = value if math.isfinite(value) else found
        return found


def read_curve(path: Path) -> Curve | None:
    """The loss (else the first number) of a metrics.csv; None where there is nothing to draw. Never raises."""
    try:
        size = path.stat().st_size
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            header = next(csv.reader([file.readline()]), [])
            if size > MOST_BYTES:
                file.seek(size - MOST_BYTES)
                file.readline()
            rows = [row for row in csv.reader(line.replace("\0", "") for line in file) if row]
    except (OSError, csv.Error):
        return None
    names = [name.strip() for name in header]
    if "step" not in names:
        return None
    column = next((name for name in PREFERRED if name in names), None)
    column = column or next((name for name in names if name not in ("step", "epoch", "lr", "")), None)
    if column is None:
        return None
    at, of = names.index("step"), names.index(column)
    points = [(_number(row, at), _number(row, of)) for row in rows]
    kept = [(step, value) for step, value in points if math.isfinite(step)]
    if not any(math.isfinite(value) for _, value in kept):
        return None
    thin = thinned(kept)
    return Curve(column, [step for step, _ in thin], [value for _, value in thin], len(kept), size <= MOST_BYTES)


def _number(row: list[str], index: int) -> float:
    try:
        return float(row[index])
    except (ValueError, IndexError):
        return math.nan


def thinned(points: list[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most ``most`` points that keep every bucket's extremes, so that no spike is lost."""
    if len(points) <= most:
        return points
    size = math.ceil(len(points) / (most // 2))
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), size):
        bucket = points[start : start + size]
        finite = [point for point in bucket if math.isfinite(point[1])]
        if not finite:
            kept.append(bucket[0])
            continue
        ends = {min(finite, key=lambda point: point[1]), max(finite, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept

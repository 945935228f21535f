"""Interleaved timing: each round runs floor, ours, floor again, so that a busy machine slows all three alike."""

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

NOISY_CONTROL, NOISY_SPREAD = 0.10, 0.35
"""A figure is called noisy where floor/floor is further from 1, or the quartiles are further apart (as a share)."""


@dataclass(frozen=True)
class Sample:
    """One run of something, seconds."""

    wall: float
    cpu: float = 0.0
    """Of all its threads and processes."""


@dataclass
class Figure:
    """One measured number of a row."""

    row: int
    name: str
    value: float
    goal: float | None
    unit: str = "x"
    """x: a ratio to the floor. Others: s, ms, MB, batches, us."""
    low: float | None = None
    high: float | None = None
    """Quartiles of the rounds."""
    control: float | None = None
    """The floor's second run in each round / its first: 1 on a quiet machine."""
    cpu: float | None = None
    """The same ratio in CPU time, which other people's processes disturb less."""
    rounds: int = 1
    parts: dict[str, float] = field(default_factory=dict)
    """Medians behind it, seconds unless the name says otherwise."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.value <= self.goal

    @property
    def noisy(self) -> bool:
        drift = self.control is not None and abs(self.control - 1) > NOISY_CONTROL
        wide = self.low is not None and self.high is not None and self.high - self.low > NOISY_SPREAD * self.value
        return drift or wide

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met, "noisy": self.noisy}


def timed(action: Callable[[], Any]) -> Sample:
    """Wall and CPU time of something in this process, its children that end in it included."""
    before, began = _cpu(), time.perf_counter()
    action()
    return Sample(time.perf_counter() - began, _cpu() - before)


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def timed_process(argv: Sequence[str], **options: Any) -> tuple[Sample, int]:
    """Time and peak memory (kB) of a process and what it waits for; raises where it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise RuntimeError(f"{' '.join(argv[:4])} ended with status {status}")
    return Sample(time.perf_counter() - began, usage.ru_utime + usage.ru_stime), usage.ru_maxrss


def compare(
    row: int,
    name: str,
    goal: float | None,
    ours: Callable[[], Sample],
    floor: Callable[[], Sample],
    rounds: int,
    note: str = "",
    offset: float = 0.0,
) -> Figure:
    """The ratio of medians of ours to the floor, with its A/A control and the quartiles of the rounds' own ratios.

    Args:
        offset: subtracted from the ratio's figures, for a goal that counts only what comes on top.
    """
    ours(), floor()  # once for nothing: caches, page cache, lazily loaded code
    triples = [(floor(), ours(), floor()) for _ in range(rounds)]
    first, middle, second = (list(samples) for samples in zip(*triples, strict=True))
    floors = [*first, *second]
    each = sorted(m.wall / ((a.wall + b.wall) / 2) for a, m, b in triples)
    low, high = quartiles(each)
    floor_cpu = median(s.cpu for s in floors)
    return Figure(
        row=row, name=name, value=median(s.wall for s in middle) / median(s.wall for s in floors) - offset, goal=goal,
        low=low - offset, high=high - offset,
        control=median(s.wall for s in second) / median(s.wall for s in first),
        cpu=median(s.cpu for s in middle) / floor_cpu - offset if floor_cpu > 0.002 else None, rounds=rounds,
        parts={"ours_s": median(s.wall for s in middle), "floor_s": median(s.wall for s in floors)}, note=note,
    )  # fmt: skip


def absolute(row: int, name: str, goal: float | None, unit: str, values: Sequence[float], note: str = "") -> Figure:
    """A figure that is no ratio: the median and the quartiles; the best in its parts."""
    low, high = quartiles(sorted(values))
    parts = {f"best_{unit}": min(values)}
    return Figure(row, name, median(values), goal, unit, low, high, rounds=len(values), parts=parts, note=note)


def median(values: Any) -> float:
    return float(statistics.median(list(values)))


def quartiles(ordered: Sequence[float]) -> tuple[float, float]:
    if len(ordered) < 4:
        return ordered[0], ordered[-1]
    cuts = statistics.quantiles(ordered, n=4)
    return cuts[0], cuts[2]

"""From values to places on a chart: fractions from 0 to 1, and round numbers to label them with."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unbroken.report.text import clock, short

_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_BREAK = 0.02
"""Width of a left-out stretch of time."""


@dataclass(frozen=True)
class Linear:
    """Evenly; with ``log``, by orders of magnitude."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], log: bool = False, margin: float = 0.04) -> "Linear":
        """A scale that holds every finite value, with a little room; from 0 to 1 where there is none."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        if log and low > 0:
            room = max((math.log10(high) - math.log10(low)) * margin, 0.02)
            return cls(low / 10**room, high * 10**room, True)
        room = (high - low) * margin or abs(high) * margin or 1.0
        return cls(low - room, high + room)

    def at(self, value: float) -> float:
        if self.log:
            value = max(value, self.low)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """Places and labels of round values."""
        found = self._log_ticks() if self.log else []
        if len(found) < 2:
            found = _round_steps(self.low, self.high, most)
        while len(found) > most + 1:
            found = found[::2]
        return [(self.at(value), short(value)) for value in found]

    def _log_ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits in ((1,), (1, 3), (1, 2, 5)):
            values = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
            inside = [value for value in values if self.low <= value <= self.high]
            if len(inside) >= 3:
                break
        return inside


def _round_steps(low: float, high: float, most: int) -> list[float]:
    if not high > low:
        return [low]
    raw = (high - low) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * digit for digit in (1, 2, 2.5, 5, 10) if size * digit >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class TimeAxis:
    """Time with its long empty stretches left out."""

    pieces: tuple[tuple[float, float, float, float], ...]
    """Stretches with something in them: first and last second, first and last place."""

    @classmethod
    def over(cls, spans: Sequence[tuple[float, float]]) -> "TimeAxis":
        """An axis for these intervals; a stretch without any, over a tenth of the rest, becomes a break."""
        merged: list[list[float]] = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        if not merged:
            merged = [[0.0, 1.0]]
        busy = sum(end - start for start, end in merged) or 1.0
        kept = [merged[0]]
        for piece in merged[1:]:
            if piece[0] - kept[-1][1] > max(busy / 10, 1.0):
                kept.append(piece)
            else:
                kept[-1][1] = piece[1]
        if len(kept) > 8:  # too many breaks to read: leave out only the longest
            kept = _join_shortest(kept, 8)
        shown = sum(end - start for start, end in kept) or 1.0
        room = 1 - _BREAK * (len(kept) - 1)
        pieces, place = [], 0.0
        for start, end in kept:
            width = room * (end - start) / shown
            pieces.append((start, end, place, place + width))
            place += width + _BREAK
        return cls(tuple(pieces))

    def at(self, seconds: float) -> float:
        """Where a time stands; inside a break: at its nearer edge."""
        for start, end, left, right in self.pieces:
            if seconds < start:
                return left
            if seconds <= end:
                return left + (right - left) * ((seconds - start) / (end - start) if end > start else 0.0)
        return self.pieces[-1][3]

    @property
    def breaks(self) -> list[tuple[float, float, float]]:
        """Left-out stretches: first place, last place, seconds left out."""
        pairs = zip(self.pieces, self.pieces[1:], strict=False)
        return [(before[3], after[2], after[0] - before[1]) for before, after in pairs]

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Places and labels of round times; the date stands where it changes."""
        shown = sum(end - start for start, end, _, _ in self.pieces) or 1.0
        steps = [*_STEPS_S, *(86400 * days for days in (2, 7, 14, 30, 90, 365, 3650, 36500))]
        times: list[float] = []
        for step in (size for size in steps if shown / size <= most):
            times = [time for piece in self.pieces for time in _inside(piece, step)]
            if len(times) <= most:
                break
        places = _apart([(self.at(time), time) for time in times], 0.8 / most)
        return list(zip((place for place, _ in places), _time_labels([time for _, time in places]), strict=True))


def _inside(piece: tuple[float, float, float, float], step: float) -> list[float]:
    """The round times within a piece; where there is none, its start, if there is room for it."""
    start, end, left, right = piece
    inside = range(math.ceil(start / step), math.floor(end / step) + 1)
    return [float(index * step) for index in inside] or ([start] if right - left > 0.05 else [])


def _time_labels(times: list[float]) -> list[str]:
    """The time of day; below it the date, where it is the first of a day."""
    seconds = any(time % 60 for time in times)
    labels, day = [], ""
    for time in times:
        date, of_day = clock(time, "%b %-d"), clock(time, "%H:%M:%S" if seconds else "%H:%M")
        labels.append(of_day if date == day else f"{of_day}\n{date}")
        day = date
    return labels


def _join_shortest(pieces: list[list[float]], most: int) -> list[list[float]]:
    while len(pieces) > most:
        index = min(range(1, len(pieces)), key=lambda i: pieces[i][0] - pieces[i - 1][1])
        pieces[index - 1 : index + 1] = [[pieces[index - 1][0], pieces[index][1]]]
    return pieces


def _apart(ticks: list[tuple[float, float]], distance: float) -> list[tuple[float, float]]:
    kept: list[tuple[float, float]] = []
    for tick in ticks:
        if not kept or tick[0] - kept[-1][0] >= distance:
            kept.append(tick)
    return kept

"""When to interrupt: at a step where the run tells its steps, else at a save, else after a share of its time."""

import random
from dataclasses import dataclass, replace
from typing import Literal

from unbroken.drill.gauge import Gauge
from unbroken.errors import UnbrokenError

Unit = Literal["step", "save", "time"]
_ENOUGH_SAVES = 3


@dataclass(frozen=True)
class Point:
    """A place in a run, counted in its ``unit``."""

    unit: Unit
    value: float
    """Steps; saves and a share of the way to the next one; a share of the undisturbed run's seconds."""

    def earlier(self) -> "Point":
        """Half as far; a step or save stays at least the first."""
        if self.unit == "step":
            return replace(self, value=max(1, int(self.value) // 2))
        return replace(self, value=self.value / 2)

    def later(self, scale: "Scale") -> "Point":
        """A little further, for a second interruption."""
        step = {"step": 1.0, "save": 1.0, "time": 0.1}[self.unit]
        return replace(self, value=min(self.value + step, scale.end(self.unit)))

    def __str__(self) -> str:
        if self.unit == "step":
            return f"step {self.value:.0f}"
        return f"save {self.value:.1f}" if self.unit == "save" else f"{self.value:.0%} of its time"


@dataclass(frozen=True)
class Scale:
    """What the undisturbed run tells about its length."""

    unit: Unit
    steps: int | None
    saves: int
    seconds: float

    @classmethod
    def of(cls, gauge: Gauge, steps_seen: set[int], seconds: float) -> "Scale":
        steps = gauge.total or gauge.step
        told = len(steps_seen) >= 2 and steps is not None and steps >= 2
        unit: Unit = "step" if told else "save" if gauge.saves >= _ENOUGH_SAVES else "time"
        return cls(unit, steps, gauge.saves, seconds)

    def end(self, unit: Unit) -> float:
        """The last point before the end of the run."""
        return {"step": float((self.steps or 2) - 1), "save": float(max(self.saves - 1, 0)), "time": 0.9}[unit]

    def chosen(self, steps: list[int]) -> list[Point]:
        """The points that a person asked for.

        Raises:
            UnbrokenError: there is no such step, or the run tells none.
        """
        if not steps:
            return []
        if self.unit == "time":
            raise UnbrokenError(
                "--at: this trainer does not tell its steps: let it write a metrics.csv with a column `step`, or "
                "checkpoints/last.json with `global_step`; or leave --at out for random times"
            )
        for step in steps:
            if not 1 <= step <= self.end(self.unit):
                what = "steps" if self.unit == "step" else "saves (it does not tell its steps)"
                last = int(self.end(self.unit))
                raise UnbrokenError(f"--at {step}: the run has {last + 1} {what}; give 1 to {last}")
        return [Point(self.unit, step) for step in steps]

    def random(self, source: random.Random) -> Point:
        """A point in the middle eight tenths."""
        share = source.uniform(0.1, 0.8)
        if self.unit == "step":
            return Point("step", max(1, round(share * self.end("step"))))
        return Point(self.unit, share * self.saves if self.unit == "save" else share)

    def __str__(self) -> str:
        steps = f"{self.steps} steps, " if self.unit == "step" else ""
        return f"{steps}{self.saves} saves, {self.seconds:.1f} s"

"""When a periodic save is due: every n effective batches, or by Young and Daly's rule from what a save costs.

W = sqrt(2 * C * M) seconds between saves, C the time that training stands still for one save, M the mean time between
unwarned ends of the collection's runs (J. W. Young, CACM 17(9), 1974; J. T. Daly, FGCS 22, 2006). Decides only when
to save, never a result.
"""

import math
import os
import time
from collections.abc import Callable

from unbroken.run_dir.unwarned import Observed
from unbroken.training.progress import say

AT_LEAST_S, AT_MOST_S = 10.0, 3600.0
"""Below, thousands of runs would busy a shared file system for nothing; above, an hour is too much to lose."""
WRITES_BETWEEN = 2.0
"""A save is not begun before so many times the time that the disk needs for one."""


class Interval:
    """The rule of one attempt.

    Args:
        setting: effective batches between saves, 0 for none, or "auto".
        expected_cost_s: of a save, until one is measured.
        observe: what is known of the collection's unwarned ends; asked once, at the first save.
    """

    def __init__(
        self,
        setting: int | str,
        keep_every: int = 0,
        expected_cost_s: float = 0.5,
        observe: Callable[[], Observed] = Observed,
    ) -> None:
        self.auto = setting == "auto"
        self.steps = 0 if self.auto else int(setting)
        self.keep_every = keep_every
        self._observe = observe
        self._observed = Observed()
        given = float(os.environ.get("UNBROKEN_MTBF_SECONDS") or 0)
        self._given_s = given or None
        self._wait_s = self._rule(expected_cost_s, expected_cost_s)
        self._saved_at = time.monotonic()
        self._costs: list[tuple[float, float]] = []

    def _rule(self, cost_s: float, write_s: float) -> float:
        mean_s = self._given_s or self._observed.mean_hours * 3600
        return min(max(math.sqrt(2 * cost_s * mean_s), WRITES_BETWEEN * write_s, AT_LEAST_S), AT_MOST_S)

    def due(self, step: int) -> bool:
        """Whether to save after this effective batch."""
        if step == 0:
            return False
        if self.keep_every and step % self.keep_every == 0:
            return True
        if self.auto:
            return time.monotonic() - self._saved_at >= self._wait_s
        return self.steps > 0 and step % self.steps == 0

    def began(self) -> None:
        """A save is being written behind the training."""
        self._saved_at = time.monotonic()

    def saved(self, cost_s: float, write_s: float) -> None:
        """Take note of a save (the median of the last five counts).

        Args:
            cost_s: how long training stood still for it.
            write_s: from its beginning until the disk had it.
        """
        if write_s <= cost_s:
            self._saved_at = time.monotonic()
        if not self.auto:
            return
        if not self._costs:
            self._observed = self._observe()
        self._costs = [*self._costs[-4:], (cost_s, write_s)]
        cost_s, write_s = (sorted(values)[len(values) // 2] for values in zip(*self._costs, strict=True))
        wait = self._rule(cost_s, write_s)
        if len(self._costs) == 1 or abs(wait - self._wait_s) > 0.5 * self._wait_s:
            why = f"one unwarned end in {self._given_s:g} s as given" if self._given_s else str(self._observed)
            say(f"checkpoint_interval auto: one save every {wait:.0f} s (a save costs {cost_s:.3g} s, {why})")
            self._wait_s = wait

"""When a periodic save is due: every n effective batches, or by Young and Daly's rule from what a save costs.

W = sqrt(2 * C * M) seconds between saves, C the cost of one save, M the mean time between unwarned ends (J. W. Young,
CACM 17(9), 1974; J. T. Daly, FGCS 22, 2006). Decides only when to save, never a result.
"""

import math
import os
import time

from unbroken.training.progress import say

MEAN_TIME_BETWEEN_FAILURES_S = 4 * 3600.0
"""Used where UNBROKEN_MTBF_SECONDS (the collection's observed rate) is not given."""
AT_LEAST_S, AT_MOST_S = 30.0, 3600.0


class Interval:
    """The rule of one attempt."""

    def __init__(self, setting: int | str, keep_every: int = 0, expected_cost_s: float = 0.5) -> None:
        self.auto = setting == "auto"
        self.steps = 0 if self.auto else int(setting)
        self.keep_every = keep_every
        self._mtbf_s = float(os.environ.get("UNBROKEN_MTBF_SECONDS") or MEAN_TIME_BETWEEN_FAILURES_S)
        self._wait_s = self._rule(expected_cost_s)
        self._saved_at = time.monotonic()
        self._costs: list[float] = []

    def _rule(self, cost_s: float) -> float:
        return min(max(math.sqrt(2 * cost_s * self._mtbf_s), AT_LEAST_S), AT_MOST_S)

    def due(self, step: int) -> bool:
        """Whether to save after this effective batch."""
        if step == 0:
            return False
        if self.keep_every and step % self.keep_every == 0:
            return True
        if self.auto:
            return time.monotonic() - self._saved_at >= self._wait_s
        return self.steps > 0 and step % self.steps == 0

    def saved(self, cost_s: float) -> None:
        """Take note of a save and what it cost (the median of the last five counts)."""
        self._saved_at = time.monotonic()
        if self.auto:
            self._costs = [*self._costs[-4:], cost_s]
            wait = self._rule(sorted(self._costs)[len(self._costs) // 2])
            if len(self._costs) == 1 or abs(wait - self._wait_s) > 0.5 * self._wait_s:
                say(f"checkpoint_interval auto: a save takes {cost_s:.3g} s, so one every {wait:.0f} s")
                self._wait_s = wait

"""A run's evaluations, and the row of metrics.csv that waits for one."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from unbroken.errors import UnbrokenError
from unbroken.training.outputs import Outputs
from unbroken.training.state import Evaluate, State


class Evaluation:
    """The function that judges the weights, or None, and what becomes of its values."""

    def __init__(
        self, function: Evaluate | None, state: State, outputs: Outputs, during: Callable[[Evaluate], Any]
    ) -> None:
        self._function, self._state, self._outputs, self._during = function, state, outputs, during

    def run(self) -> None:
        """Evaluate, and write the row of this step with the values in it."""
        self._judge()
        state = self._state
        state.row = {**(state.row or {"step": state.global_step}), **state.evaluation}
        self.write_row()

    def refresh(self) -> None:
        """Evaluate again where the weights have changed since, as after a loop that was left early."""
        if self._function is not None and self._state.evaluated_step != self._state.global_step:
            self._judge()

    def write_row(self) -> None:
        """The row that waits, if one does."""
        row, self._state.row = self._state.row, None
        if row is not None:
            self._outputs.row(row, row["step"] == self._state.plan.total_steps)

    def _judge(self) -> None:
        assert self._function is not None
        values, state = self._during(self._function), self._state
        if not isinstance(values, Mapping):
            raise UnbrokenError(f"evaluate returned {values!r}: let it return a dictionary of names and numbers")
        state.evaluation = {name: number(value) for name, value in values.items()}
        state.evaluated_step = state.global_step


def number(value: Any) -> Any:
    """A tensor of one element or a NumPy float as a plain number; anything else as it is."""
    return value.item() if isinstance(value, torch.Tensor) else float(value) if isinstance(value, float) else value

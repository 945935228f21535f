"""The harness of the benchmarks: ratios, controls, verdicts, the table and the plot; no timing is asserted."""

import importlib

import pytest
from benchmarks import output
from benchmarks.__main__ import ROWS
from benchmarks.harness import Figure, Sample, absolute, compare


def test_a_ratio_of_medians_with_its_control_and_spread() -> None:
    turns = iter(range(100))

    def floor() -> Sample:
        return Sample(2.0 if next(turns) % 2 else 1.0, 0.5)

    figure = compare(1, "x", 2.5, lambda: Sample(3.0, 1.0), floor, rounds=4)
    assert (figure.value, figure.cpu, figure.rounds) == (2.0, 2.0, 4)
    assert figure.met and figure.control in (0.5, 2.0) and figure.noisy
    assert figure.low == figure.high == 2.0
    assert not compare(1, "x", 1.5, lambda: Sample(2.0), lambda: Sample(1.0), rounds=1).met


def test_a_figure_that_is_no_ratio() -> None:
    figure = absolute(11, "start", 80.0, "ms", [70.0, 75.0, 90.0, 71.0, 72.0])
    assert figure.value == 72.0 and figure.met and figure.parts["best_ms"] == 70.0
    assert Figure(4, "none lost", 0.0, 0.0).met and Figure(4, "lost", 1.0, 0.0).met is False
    assert Figure(2, "for comparison", 9.0, None).met is None


def test_table_and_plot() -> None:
    figures = [
        Figure(1, "a <save>", 1.04, 1.3, low=1.0, high=1.1, control=1.0),
        Figure(5, "b", 9.0, 1.2, note="because"),
        Figure(2, "c", 3.0, None),
    ]
    shown = output.table(figures)
    assert "met" in shown.splitlines()[1] and "missed" in shown.splitlines()[2] and "because" in shown
    drawn = output.plot(figures)
    assert drawn.startswith("<svg") and "a &lt;save&gt;" in drawn
    assert drawn.count("<rect") == 3  # the ground and the two that have a goal


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_there(row: int) -> None:
    module = importlib.import_module(f"benchmarks.{ROWS[row]}")
    assert callable(module.measure) and f"row {row}" in module.__doc__.lower()

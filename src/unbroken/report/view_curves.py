"""Loss curves: a small chart for each setting on common axes, a line for each seed, interruptions marked."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from unbroken.report.curves import Curve, read_curve
from unbroken.report.history import History
from unbroken.report.markup import Markup, percent, tag
from unbroken.report.scale import Linear
from unbroken.report.shapes import edge, key, shape, swatch
from unbroken.report.text import number, plural

MOST_CHARTS = 24
MOST_LINES = 24
STYLES = 8
"""Lines told apart by colour and dashes; where there are more seeds, all look alike."""
LOG_FROM = 30.0
"""Largest over smallest value from which the axis is logarithmic."""


@dataclass(frozen=True)
class Line:
    """One run's curve."""

    history: History
    curve: Curve
    style: int | None


def curves_section(histories: list[History]) -> tuple[str, str, Markup] | None:
    """None where no run has logged anything."""
    charts = _charts(histories)
    if not charts:
        return None
    shown = charts[:MOST_CHARTS]
    lines = [line for _, group in shown for line in group]
    x = Linear.over((step for line in lines for step in line.curve.steps), margin=0.0)
    x = Linear(min(0.0, x.low), x.high)
    finite = [value for line in lines for value in line.curve.values if math.isfinite(value)]
    log = min(finite) > 0 and max(finite) / min(finite) > LOG_FROM
    y = Linear.over(finite, log)
    column = lines[0].curve.column
    legend = _legend(lines)
    words = f"{column} by effective batch, {'logarithmic' if log else 'linear'} scale, the same axes in every chart."
    figure = tag(
        "figure",
        key(legend),
        tag("div", *(_chart(label, group, x, y) for label, group in shown), class_="charts"),
        tag("figcaption", words, " ", _limits(charts, shown, lines)),
    )
    return "curves", "Loss curves", figure


def _charts(histories: list[History]) -> list[tuple[str, list[Line]]]:
    groups: dict[str, list[History]] = {}
    for history in histories:
        groups.setdefault(history.record.run.setting, []).append(history)
    charts: list[tuple[str, list[Line]]] = []
    for group in groups.values():
        lines = []
        alike = len(group) > STYLES
        for index, history in enumerate(group[:MOST_LINES]):
            if len(charts) >= MOST_CHARTS:
                break  # counted as not shown, so not read either
            curve = read_curve(history.record.paths.metrics)
            if curve is not None:
                lines.append(Line(history, curve, None if alike else index))
        if lines or len(charts) >= MOST_CHARTS:
            charts.append((group[0].record.run.label, lines))
    return charts


def _legend(lines: list[Line]) -> list[tuple[Markup, str]]:
    items: dict[str, tuple[Markup, str]] = {}
    for line in lines:
        text = "one line a seed" if line.style is None else f"seed {line.history.record.run.seed}"
        items.setdefault(text, (_sample(line.style), text))
    found = list(items.values())
    endings = {attempt.ending for line in lines for attempt in line.history.interruptions}
    for kind, text in (
        ("interrupted", "interrupted and saved: the next attempt goes on here"),
        ("killed", "ended without a word, at its last save"),
        ("failed", "failed, at its last save"),
    ):
        if kind in endings:
            found.append((swatch(kind), text))
    return found


def _sample(style: int | None) -> Markup:
    line = tag("line", x1="1", x2="27", y1="8", y2="8", class_=_line_class(style))
    return tag("svg", line, width="28", height="16", aria_hidden="true")


def _line_class(style: int | None) -> str:
    return "curve plain" if style is None else f"curve s{style}"


def _limits(charts: list[tuple[str, list[Line]]], shown: list[tuple[str, list[Line]]], lines: list[Line]) -> str:
    parts = []
    if len(charts) > len(shown):
        parts.append(f"{len(shown)} of {len(charts)} settings are drawn.")
    if any(not line.curve.whole for line in lines):
        parts.append("Of very long files only the end is drawn.")
    missing = sum(
        1
        for line in lines
        for attempt in line.history.interruptions
        if attempt.last_step is None and attempt.first_step is None
    )
    if missing:
        parts.append(f"{plural(missing, 'interruption')} before the first save stand at step 0.")
    return " ".join(parts)


def _chart(label: str, lines: list[Line], x: Linear, y: Linear) -> Markup:
    y_ticks, x_ticks = y.ticks(4), x.ticks(4)
    grid = [tag("line", x1="0", x2="100%", y1=percent(1 - at), y2=percent(1 - at), class_="grid") for at, _ in y_ticks]
    paths = tag(
        "svg",
        *(tag("path", d=_path(line.curve, x, y), class_=_line_class(line.style)) for line in lines),
        viewBox="0 0 1000 1000", preserveAspectRatio="none", width="100%", height="100%",
    )  # fmt: skip
    marks = [mark for line in lines for mark in _marks(line, x, y)]
    drawing = tag(
        "svg", *grid, paths, *marks, width="100%", height="100%", role="img",
        aria_label=f"{label}: {'; '.join(_words(line) for line in lines[:STYLES])}",
    )  # fmt: skip
    # The labels are text beside the drawing, not in it: they keep their size on every screen.
    left = tag("div", *(tag("span", text, style=f"top:{percent(1 - at)}") for at, text in y_ticks), class_="y")
    below = [tag("span", text, style=f"left:{percent(at)}", class_=edge(at)) for at, text in x_ticks]
    return tag(
        "div", tag("h3", label), tag("div", left, tag("div", drawing, class_="plot"), class_="frame"),
        tag("div", *below, class_="x"), class_="chart",
    )  # fmt: skip


def _words(line: Line) -> str:
    last = next((value for value in reversed(line.curve.values) if math.isfinite(value)), None)
    text = f"seed {line.history.record.run.seed} ends at {number(last)}"
    count = len(line.history.interruptions)
    return text + (f" after {plural(count, 'interruption')}" if count else "")


def _path(curve: Curve, x: Linear, y: Linear) -> str:
    """Straight lines; a value that is no number leaves a gap."""
    parts, pen_up = [], True
    for step, value in zip(curve.steps, curve.values, strict=True):
        if not math.isfinite(value):
            pen_up = True
            continue
        parts.append(f"{'M' if pen_up else 'L'}{1000 * x.at(step):.1f} {1000 * (1 - y.at(value)):.1f}")
        pen_up = False
    return "".join(parts)


def _marks(line: Line, x: Linear, y: Linear) -> Iterable[Markup]:
    for attempt in line.history.interruptions:
        step = attempt.last_step if attempt.last_step is not None else attempt.first_step or 0
        value = line.curve.value_at(step)
        value = value if value is not None else line.curve.values[0]
        if math.isfinite(value):
            title = f"{line.history.record.name}, attempt {attempt.number}, step {step}: {attempt.reason}"
            yield shape(attempt.ending, percent(x.at(step)), percent(1 - y.at(value)), title)

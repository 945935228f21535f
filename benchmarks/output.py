"""The table on the screen, the plot, and docs/performance.md."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.harness import Figure

_WIDTHS = (3, 48, 13, 8, 17, 7, 7, 5, 9)
_HEADERS = ("row", "figure", "measured", "goal", "quartiles", "A/A", "CPU", "n", "")


def number(value: float | None, unit: str = "") -> str:
    """Three figures, and the unit where it says something."""
    if value is None:
        return ""
    text = f"{value:.4f}".rstrip("0").rstrip(".") if unit == "x" and 0.95 < value < 1.1 else f"{value:.3g}"
    return f"{text} {unit}" if unit not in ("", "x") else text


def cells(figure: Figure) -> tuple[str, ...]:
    spread = "" if figure.low is None else f"{number(figure.low, 'x')} - {number(figure.high, 'x')}"
    verdict = "" if figure.met is None else "met" if figure.met else "missed"
    if figure.noisy:
        verdict = f"{verdict} noisy".strip()
    return (
        str(figure.row), figure.name, number(figure.value, figure.unit), number(figure.goal), spread,
        number(figure.control), number(figure.cpu, "x"), str(figure.rounds), verdict,
    )  # fmt: skip


def table(figures: Sequence[Figure], header: bool = True) -> str:
    rows = [_HEADERS] if header else []
    rows += [cells(figure) for figure in figures]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, _WIDTHS, strict=True)).rstrip() for row in rows]
    notes = [f"       {figure.name}: {figure.note}" for figure in figures if figure.note]
    return "\n".join(lines + notes)


def comparison_table(result: dict[str, Any]) -> str:
    keys = ("time lost per interruption, s", "overhead of an undisturbed run", "wall time of the collection, s")
    lines = [f"{'':28}" + "".join(f"{key:>36}" for key in keys)]
    for name, values in result["systems"].items():
        lines.append(f"{name:28}" + "".join(f"{number(values.get(key)):>36}" for key in keys))
    return "\n".join(lines)


def machine_line(facts: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def plot(figures: Sequence[Figure]) -> str:
    """Each figure with a goal as a bar of measured / goal, its quartiles, and the line where the goal is."""
    drawn = [figure for figure in figures if figure.goal]
    left, width, step = 360, 420, 24
    scale = width / 2.5
    parts = []
    for place, figure in enumerate(drawn):
        goal = figure.goal or 1.0
        top = 40 + place * step
        share = min(figure.value / goal, 2.5)
        colour = "#3a7d44" if figure.met else "#b3412e"
        label = escape(f"{figure.row}  {figure.name}")
        parts.append(f'<text x="{left - 8}" y="{top + 12}" text-anchor="end">{label}</text>')
        parts.append(f'<rect x="{left}" y="{top}" width="{share * scale:.1f}" height="15" fill="{colour}"/>')
        if figure.low is not None and figure.high is not None:
            a, b = (left + min(max(value / goal, 0), 2.5) * scale for value in (figure.low, figure.high))
            parts.append(f'<path d="M{a:.1f} {top + 7.5}H{b:.1f}" stroke="#222" stroke-width="1.5"/>')
        said = f"{number(figure.value, figure.unit)} of {number(goal)}{' (noisy)' if figure.noisy else ''}"
        parts.append(f'<text x="{left + share * scale + 6:.1f}" y="{top + 12}">{said}</text>')
    height = 60 + len(drawn) * step
    line = f'<path d="M{left + scale:.1f} 30V{height - 14}" stroke="#222" stroke-dasharray="4 3"/>'
    words = f'<text x="{left + scale:.1f}" y="22" text-anchor="middle">goal</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 170} {height}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"<title>Measured / goal; shorter is better</title>{words}{''.join(parts)}{line}</svg>\n"
    )


def write_docs(docs: Path, results: Path, rows_there: Iterable[int]) -> None:
    """docs/performance.md and its plot, from the last full run and the last comparison."""
    full = json.loads((results / "full.json").read_text())
    figures = read_figures(results / "full.json")
    rows = ["| row | figure | measured | goal | quartiles | A/A | in CPU time | n | |", "| --- " * 9 + "|"]
    rows += ["| " + " | ".join(cells(figure)) + " |" for figure in figures]
    missed = [_missed(figure) for figure in figures if figure.met is False]
    failed = dict(full["failed"])
    measured = {figure.row for figure in figures}
    failed |= {row: "not in the last full run" for row in rows_there if row not in measured}
    parts = [f"- {f.name}: {f.note or 'see the code'}; {_parts(f)}" for f in figures if f.parts]
    template = Template((Path(__file__).parent / "performance.md.in").read_text())
    text = template.substitute(
        machine="\n".join(f"- {key.replace('_', ' ')}: {value}" for key, value in full["machine"].items()),
        table="\n".join(rows),
        missed="\n".join(missed) or "None.",
        failed="\n".join(f"- row {row}: {why}" for row, why in failed.items()) or "None.",
        parts="\n".join(parts).replace("see the code; ", ""),
        comparison=_comparison(results / "compare.json"),
    )
    (docs / "performance.md").write_text(text)
    (docs / "performance.svg").write_text(plot(figures))


def read_figures(path: Path) -> list[Figure]:
    """The figures of a file of results."""
    found = json.loads(path.read_text())["figures"]
    return [Figure(**{key: value for key, value in one.items() if key not in ("met", "noisy")}) for one in found]


def _missed(figure: Figure) -> str:
    by_cpu = figure.cpu and figure.goal is not None and figure.cpu <= figure.goal
    also = f"; in CPU time it is {number(figure.cpu, 'x')}, which would meet it" if by_cpu else ""
    close = figure.low is None or (figure.goal is not None and figure.low <= figure.goal)
    noisy = "; the machine was too busy to tell" if figure.noisy and close else ""
    said = f"{number(figure.value, figure.unit)}, goal {number(figure.goal)}"
    return f"- row {figure.row}, {figure.name}: {said}{also}{noisy}"


def _parts(figure: Figure) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in figure.parts.items())


def _comparison(path: Path) -> str:
    if not path.exists():
        return "Not measured yet: `python -m benchmarks compare --write-docs`."
    result = json.loads(path.read_text())
    keys = list(next(iter(result["systems"].values())))
    lines = ["| | " + " | ".join(keys) + " |", "| --- " * (len(keys) + 1) + "|"]
    for name, values in result["systems"].items():
        lines.append(f"| {name} | " + " | ".join(_text(values[key]) for key in keys) + " |")
    load = f"Load average: {result['machine']['load_average']}; above the machine's cores, times are upper bounds."
    return "\n".join([f"{result['about']} {load}", "", *lines, "", *[f"- {note}" for note in result["notes"]]])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else number(value)

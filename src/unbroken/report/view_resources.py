"""Resources asked for against used."""

from unbroken.report.markup import Markup, join, percent, tag
from unbroken.report.resources import Usage
from unbroken.report.tables import Column, table
from unbroken.report.text import duration, mebibytes, number, plural

MOST_SETTINGS = 60


def resources_section(usages: list[Usage], note: str) -> tuple[str, str, Markup] | None:
    """None where nothing has run. ``note`` says where the numbers come from, or why some are missing."""
    if not usages:
        return None
    shown = usages[:MOST_SETTINGS]
    heads = ["longest attempt, of its limit", "memory, of that asked", "CPU time, of that allocated"]
    known = 3 if any(usage.cpu_allocated_s for usage in usages) else 2
    columns = [Column("setting", "name"), Column("runs", "num"), Column("attempts", "num")]
    columns += [Column(head) for head in heads[:known]]
    rows = [[usage.label, usage.runs, usage.attempts, *_meters(usage)[:known], _gpus(usage)] for usage in shown]
    if any(usage.gpus for usage in usages):
        columns.append(Column("GPUs", "num"))
    rest = len(usages) - len(shown)
    return (
        "resources",
        "Resources asked for and used",
        join(
            [
                tag("p", "The most that any run of a setting used. ", note),
                table(columns, rows, cards=True),
                tag("p", f"{plural(rest, 'more setting')} not shown.", class_="soft small") if rest else None,
            ]
        ),
    )


def _gpus(usage: Usage) -> str:
    return number(int(usage.gpus)) if usage.gpus else "–"


def _meters(usage: Usage) -> list[Markup | str]:
    time = _meter(duration(usage.longest_s), duration(usage.limit_s), usage.longest_s, usage.limit_s)
    used, asked = usage.memory_mib, usage.memory_asked_mib
    memory = _meter(mebibytes(used), mebibytes(asked), used, asked)
    used, asked = usage.cpu_used_s, usage.cpu_allocated_s
    return [time, memory, _meter(duration(used), duration(asked), used, asked) if asked else "–"]


def _meter(used_text: str, asked_text: str, used: float | None, asked: float | None) -> Markup | str:
    if used is None:
        return f"unknown of {asked_text}" if asked else "–"
    if not asked:
        return f"{used_text}, limit unknown"
    share = used / asked
    fill = tag(
        "rect",
        x="0",
        y="0",
        width=percent(min(share, 1.0)),
        height="8",
        class_="b-over" if share > 0.95 else "b-running",
    )
    frame = tag("rect", x="0", y="0", width="100%", height="8", class_="b-frame")
    words = f"{used_text} of {asked_text}"
    drawing = tag("svg", frame, fill, width="100%", height="8", role="img", aria_label=f"{100 * share:.0f} %")
    return tag("div", tag("span", words), tag("span", f" {100 * share:.0f} %", class_="soft"), drawing, class_="meter")

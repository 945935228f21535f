"""The lost-work ledger: where the hours went."""

from unbroken.report.ledger import ALLOCATED, LINES, Ledger
from unbroken.report.markup import Markup, join, percent, tag
from unbroken.report.shapes import key, swatch
from unbroken.report.tables import Column, Row, table
from unbroken.report.text import duration, hours, plural

_LOOK = {
    "useful": "running",
    "saving": "saving-solid",
    "starting": "starting",
    "lost_crash": "lost",
    "lost_interruption": "gone",
}


def ledger_section(ledger: Ledger) -> tuple[str, str, Markup] | None:
    """None where nothing has run."""
    if not ledger.allocated:
        return None
    gpus = ledger.gpu_allocated > 0
    columns = [
        Column("where the time went", "name"),
        Column("time", "num"),
        Column("hours", "num"),
        Column("share", "num"),
    ]
    columns += [Column("GPU-hours", "num")] if gpus else []
    rows = []
    for line, (name, definition) in LINES.items():
        if not ledger.seconds[line] and line not in ("useful", "saving", "queued"):
            continue
        share = f"{100 * ledger.seconds[line] / ledger.allocated:.1f} %" if line != "queued" else "–"
        gpu = [hours(ledger.gpu_seconds[line], ledger.gpu_allocated) if line != "queued" else "–"] if gpus else []
        spent = ledger.seconds[line]
        cells = [_name(name, definition), duration(spent), hours(spent, ledger.allocated), share, *gpu]
        rows.append(Row("part" if line == "replayed" else "", cells))
    total = [hours(ledger.gpu_allocated)] if gpus else []
    counted = "every second in which a run held its resources, counted once"
    name = _name("All attempts together", counted)
    rows.insert(-1, Row("total", [name, duration(ledger.allocated), hours(ledger.allocated), "100 %", *total]))
    return "ledger", "Where the time went", join([_bar(ledger), table(columns, rows, cards=True), _blind(ledger)])


def _name(name: str, definition: str) -> Markup:
    return join([name, tag("div", definition, class_="soft small definition")])


def _bar(ledger: Ledger) -> Markup:
    place, parts, items = 0.0, [], []
    for line in ALLOCATED:
        share = ledger.seconds[line] / ledger.allocated
        if share <= 0:
            continue
        look, name = _LOOK[line], LINES[line][0]
        title = tag("title", f"{name}: {100 * share:.1f} %")
        parts.append(tag("rect", title, x=percent(place), y="0", width=percent(share), height="26", class_=f"b-{look}"))
        items.append((swatch(look), f"{name.lower()} {100 * share:.1f} %"))
        place += share
    words = ", ".join(text for _, text in items)
    drawing = tag("svg", *parts, width="100%", height="26", role="img", aria_label=words, class_="stack")
    return tag("figure", drawing, key(items))


def _blind(ledger: Ledger) -> Markup | None:
    if not ledger.runs_without_saves:
        return None
    runs = plural(ledger.runs_without_saves, "interrupted run")
    text = f"The trainer of {runs} does not record its saves: what they lost is not known and is counted as useful."
    return tag("p", text, class_="soft small")

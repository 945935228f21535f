"""The setting x seed table, with mean and spread."""

from unbroken.collection import Collection
from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import Record
from unbroken.report.results import SettingRow, setting_table, short_names
from unbroken.report.tables import Column, table
from unbroken.report.text import number, plural

MOST_SETTINGS = 100
MOST_SEEDS = 12
MOST_FULL_TABLES = 2
MOST_METRICS = 24


def results_section(collection: Collection, records: list[Record]) -> tuple[str, str, Markup]:
    """Means of every measure by setting, then the single seeds of each measure."""
    found = setting_table(collection, records)
    if not found.metrics:
        return "results", "Results", tag("p", "No run has finished yet, so there are no numbers to compare.")
    rows = found.rows[:MOST_SETTINGS]
    metrics = found.metrics[:MOST_METRICS]
    short = short_names(found.metrics)
    parts: list[Markup | None] = [
        tag(
            "p",
            "Mean ± sample standard deviation over the finished seeds of each setting. All digits are in summary.csv.",
        ),
        table(
            [Column("setting", "name"), Column("finished", "num"), *(Column(short[name], "num") for name in metrics)],
            (
                [row.setting.label, f"{row.finished} of {row.total}", *(_mean(row, name) for name in metrics)]
                for row in rows
            ),
        ),
        _left_out(len(found.rows) - len(rows), "setting", len(found.metrics) - len(metrics)),
    ]
    for index, name in enumerate(metrics):
        content = _seed_table(collection, rows, name)
        if index < MOST_FULL_TABLES:
            parts.append(join([tag("h3", f"{short[name]}, seed by seed"), content]))
        else:
            parts.append(tag("details", tag("summary", f"{short[name]}, seed by seed"), content))
    return "results", "Results", join(parts)


def _mean(row: SettingRow, name: str) -> str:
    cell = row.cells.get(name)
    if cell is None or cell.mean is None:
        return "–" if cell is None else ", ".join(sorted({number(value) for value in cell.by_seed.values()}))
    spread = f" ± {number(cell.spread, 2)}" if cell.spread is not None else ""
    return f"{number(cell.mean)}{spread}"


def _seed_table(collection: Collection, rows: list[SettingRow], name: str) -> Markup:
    seeds = collection.seeds[:MOST_SEEDS]
    columns = [Column("setting", "name"), *(Column(f"seed\N{NO-BREAK SPACE}{seed}", "num") for seed in seeds)]
    columns += [Column("mean", "num"), Column("spread", "num")]
    body = []
    for row in rows:
        cell = row.cells.get(name)
        values = cell.by_seed if cell else {}
        mean, spread = (cell.mean, cell.spread) if cell else (None, None)
        single = [number(values[seed]) if seed in values else "–" for seed in seeds]
        body.append([row.setting.label, *single, number(mean) or "–", number(spread, 2) or "–"])
    hidden = len(collection.seeds) - len(seeds)
    note = (
        tag("p", f"{plural(hidden, 'more seed')} in the mean but not shown.", class_="soft small") if hidden else None
    )
    return join([table(columns, body), note])


def _left_out(settings: int, noun: str, metrics: int) -> Markup | None:
    parts = [plural(settings, f"more {noun}")] if settings > 0 else []
    parts += [plural(metrics, "more measure")] if metrics > 0 else []
    return tag("p", f"Not shown: {' and '.join(parts)}; summary.csv has them.", class_="soft small") if parts else None

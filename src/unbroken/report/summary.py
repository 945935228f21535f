"""results/<slug>/summary.csv: one row a finished run, the same bytes however often the runs were interrupted."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbroken.collection import Collection
from unbroken.collection.identity import ABSENT, canonical_json
from unbroken.collection.nested import get, leaf_keys
from unbroken.report.records import Record, read_records
from unbroken.run_dir.files import write_atomic

if TYPE_CHECKING:
    import pandas as pd

FIRST_COLUMNS = ("collection", "setting", "seed", "label")
LAST_COLUMNS = ("trainer", "config_hash", "weights_sha256", "schema_version")
"""Of a result, what a person reads last."""
STEP_KEYS = ("steps", "global_step", "total_steps")
"""What a result may call its number of effective batches."""
OUTPUT = "summary.csv"


@dataclass(frozen=True)
class Summary:
    """The table and what it leaves out."""

    slug: str
    table: "pd.DataFrame"
    finished: int
    total: int
    unfinished: tuple[Record, ...]

    @property
    def line(self) -> str:
        """How many of how many, for a terminal."""
        return f"{self.slug}: {self.finished} of {self.total} runs finished"


def varying_keys(collection: Collection) -> list[tuple[str, ...]]:
    """The experiment keys that differ between settings, as key paths, sorted."""
    values: dict[tuple[str, ...], set[str]] = {}
    counts: dict[tuple[str, ...], int] = {}
    for setting in collection.settings:
        for keys, value in leaf_keys(setting.config):
            values.setdefault(keys, set()).add(canonical_json(value))
            counts[keys] = counts.get(keys, 0) + 1
    total = len(collection.settings)
    return sorted(keys for keys, texts in values.items() if len(texts) > 1 or counts[keys] < total)


def scalars(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Every number, text, flag and null of a nested result, by dotted key; lists are left out."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = f"{above}{key}"
        if isinstance(item, Mapping):
            found.update(scalars(item, f"{name}."))
        elif item is None or isinstance(item, str | int | float):
            found[name] = item
    return found


def summarise(collection: Collection, runs_dir: Path, records: Iterable[Record] | None = None) -> Summary:
    """The summary over all finished runs, also where others failed or have not begun."""
    import pandas as pd  # half a second, which the callers of varying_keys need not pay

    keys = varying_keys(collection)
    rows: list[dict[str, Any]] = []
    measured: dict[str, None] = {}
    unfinished: list[Record] = []
    for record in records if records is not None else read_records(collection, runs_dir, with_events=False):
        if record.result is None:
            unfinished.append(record)
            continue
        row = _row(record, keys)
        measured.update(dict.fromkeys(row))
        rows.append(row)
    first = [*FIRST_COLUMNS, *(_column(path) for path in keys), "steps"]
    rest = sorted(name for name in measured if name not in (*first, *LAST_COLUMNS))
    columns = [*first, *rest, *(name for name in LAST_COLUMNS if name in measured)]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return Summary(collection.slug, table, len(rows), len(rows) + len(unfinished), tuple(unfinished))


def write_summary(
    collection: Collection, runs_dir: Path, path: Path, records: Iterable[Record] | None = None
) -> Summary:
    """Write summary.csv, atomically, and return what is in it."""
    summary = summarise(collection, runs_dir, records)
    write_atomic(path, summary.table.to_csv(index=False, lineterminator="\n"), durable=False)
    return summary


def _column(keys: tuple[str, ...]) -> str:
    """The name of an experiment key's column; one that a fixed column has already gets a prefix."""
    name = ".".join(keys)
    return f"config.{name}" if name in (*FIRST_COLUMNS, "steps") else name


def _row(record: Record, keys: list[tuple[str, ...]]) -> dict[str, Any]:
    run, result = record.run, scalars(record.result or {})
    config: dict[str, Any] = {}
    for path in keys:
        value = get(run.point.config, path)
        config[_column(path)] = (
            None if value is ABSENT else json.dumps(value) if isinstance(value, list | dict) else value
        )
    steps = next((result[key] for key in STEP_KEYS if result.get(key) is not None), None)
    row = {
        **dict(zip(FIRST_COLUMNS, (run.collection, run.setting, run.seed, run.label), strict=True)),
        **config,
        "steps": steps if steps is not None else record.status.total_steps,
    }
    for key, value in result.items():
        if key in row and (key in ("collection", "setting", "seed", "label", "steps") or row[key] == value):
            continue  # the same thing said twice
        row[f"result.{key}" if key in row else key] = value
    return row

"""The table of settings and seeds: every number of the results, with mean and spread over seeds."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from unbroken.collection import Collection, Setting
from unbroken.report.records import Record
from unbroken.report.summary import FIRST_COLUMNS, STEP_KEYS, scalars, varying_keys


@dataclass
class Cell:
    """One measure of one setting."""

    by_seed: dict[int, float] = field(default_factory=dict)

    @property
    def _finite(self) -> list[float]:
        return [value for value in self.by_seed.values() if math.isfinite(value)]

    @property
    def mean(self) -> float | None:
        """Over the seeds with a finite value; None without any."""
        return statistics.fmean(self._finite) if self._finite else None

    @property
    def spread(self) -> float | None:
        """Sample standard deviation; None for fewer than two values."""
        return statistics.stdev(self._finite) if len(self._finite) > 1 else None


@dataclass
class SettingRow:
    """One setting with all its seeds."""

    setting: Setting
    records: list[Record] = field(default_factory=list)
    cells: dict[str, Cell] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.records)

    @property
    def finished(self) -> int:
        return sum(record.result is not None for record in self.records)


@dataclass(frozen=True)
class SettingTable:
    """Rows in the order of the collection's file; measures in the order of importance."""

    rows: list[SettingRow]
    metrics: list[str]


_TELLING = ("nse", "kge", "loss", "rmse", "accuracy", "acc", "error", "mse", "bias", "auc", "f1", "r2")


def setting_table(collection: Collection, records: Iterable[Record]) -> SettingTable:
    """Group the records by setting and gather every number of their results."""
    rows = {setting.id: SettingRow(setting) for setting in collection.settings}
    config_names = {".".join(keys) for keys in varying_keys(collection)}
    left_out = {*FIRST_COLUMNS, *STEP_KEYS, *config_names, "schema_version"}
    names: dict[str, None] = {}
    for record in records:
        row = rows[record.run.setting]
        row.records.append(record)
        for name, value in scalars(record.result or {}).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or name in left_out:
                continue
            names[name] = None
            row.cells.setdefault(name, Cell()).by_seed[record.run.seed] = float(value)
    alike = {name for name in names if _always_the_same(rows.values(), name)}
    return SettingTable(list(rows.values()), sorted(names, key=lambda name: (name in alike, _importance(name))))


def _always_the_same(rows: Iterable[SettingRow], name: str) -> bool:
    """A measure that no setting and no seed changes tells nothing about them: it comes last."""
    cells = [row.cells[name].by_seed.values() for row in rows if name in row.cells]
    values = [value for seeds in cells for value in seeds]
    return len(values) > 1 and len(set(values)) == 1


def short_names(names: list[str]) -> dict[str, str]:
    """Each name without the first words that all of them share: ``metrics.nse`` is ``nse`` beside ``metrics.kge``."""
    words = [name.split(".") for name in names]
    shared = 0
    while words and all(len(parts) > shared + 1 and parts[shared] == words[0][shared] for parts in words):
        shared += 1
    found = {name: ".".join(parts[shared:]) for name, parts in zip(names, words, strict=True)}
    taken = set(found.values())
    for name, short in found.items():  # the usual home of measures says nothing, unless two would be called alike
        bare = short.removeprefix("metrics.")
        if bare not in taken:
            found[name] = bare
            taken.add(bare)
    return found


def _importance(name: str) -> tuple[int, int, list[tuple[int, str]]]:
    """Final measures of a model first, counts and parameters of its making last."""
    words = name.lower().replace("_", ".").split(".")
    rank = next((index for index, word in enumerate(_TELLING) if word in words), len(_TELLING))
    held_out = bool({"test", "val", "valid", "validation", "gauge"} & set(words))
    return rank, not held_out, [(int(word), "") if word.isdigit() else (-1, word) for word in words]

"""Two finished run directories: result.json, the last checkpoint key by key, metrics.csv."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.drill.parts import POSITION, part_of, rank

_SHOWN = 40
_METRICS, _RESULT = "metrics", "result"


@dataclass(frozen=True)
class Difference:
    """One place in which two runs differ."""

    file: str
    key: str
    part: str
    text: str
    """Undisturbed -> interrupted, for a person."""

    @property
    def place(self) -> tuple[str, str]:
        return self.file, self.key

    def __str__(self) -> str:
        return f"{self.file} {self.key}: {self.text}" if self.key else f"{self.file}: {self.text}"


class _Missing:
    def __repr__(self) -> str:
        return "(absent)"


_MISSING = _Missing()


def differences(whole: RunPaths, other: RunPaths) -> tuple[list[Difference], list[str]]:
    """All differences, in the order of cause and effect, and notes on what could not be compared."""
    notes = []
    saved = list(_checkpoints(whole.last, other.last))
    elsewhere = next((item for item in saved if item.part == POSITION), None)
    if elsewhere is not None:
        notes.append(f"last.pt not compared, it was saved at another place ({elsewhere.key} {elsewhere.text})")
        saved = []
    found = [*saved, *_results(whole.result, other.result), *_rows(whole.metrics, other.metrics)]
    return sorted(found, key=lambda item: rank(item.part)), notes


def load(path: Path) -> Any:
    """What a checkpoint holds: as torch reads it (weights_only: nothing in it is run), as JSON, else its bytes."""
    import torch

    from unbroken.training.reading import Unreadable, load_payload

    content = path.read_bytes()
    try:
        with open(path, "rb") as file:
            return load_payload(file)
    except (Unreadable, OSError):
        pass
    try:
        return json.loads(content)
    except ValueError:
        return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0)


def readable(path: Path) -> bool:
    """Whether a checkpoint loads, by torch or as JSON."""
    import torch

    return not isinstance(load(path), torch.Tensor)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of everything that holds nothing further."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and any(
        isinstance(item, Mapping | list | tuple) or _tensor(item) for item in value
    ):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def _tensor(value: Any) -> bool:
    return hasattr(value, "untyped_storage")


def same(one: Any, other: Any) -> bool:
    """Bit for bit: type, shape and content; NaN is NaN."""
    if _tensor(one) and _tensor(other):
        import torch

        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.is_quantized or one.is_sparse or one.dtype.is_complex:
            return bool(torch.equal(one, other))
        return bool(torch.equal(*(item.contiguous().reshape(-1).view(torch.uint8) for item in (one, other))))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(type(one) is type(other) and one == other)


def _show(value: Any) -> str:
    text = f"tensor {tuple(value.shape)}" if _tensor(value) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _told(one: Any, other: Any) -> str:
    if _tensor(one) and _tensor(other) and one.shape == other.shape and one.dtype == other.dtype:
        unequal = int((one != other).sum())
        gap = float((one.double() - other.double()).abs().max()) if one.numel() and not one.dtype.is_complex else 0.0
        largest = "" if one.dtype.is_floating_point is False else f", by up to {gap:.3g}"
        return f"{unequal} of {one.numel()} values differ{largest}"
    return f"{_show(one)} -> {_show(other)}"


def _mappings(file: str, one: Any, other: Any, default: str) -> Iterator[Difference]:
    before, after = dict(leaves(one)), dict(leaves(other))
    for key in {**before, **after}:
        old, new = before.get(key, _MISSING), after.get(key, _MISSING)
        if not same(old, new):
            part = part_of(key)
            if part == POSITION and (old is _MISSING or new is _MISSING):
                part = "other"
            yield Difference(file, key, default if part == "other" else part, _told(old, new))


def _checkpoints(one: Path, other: Path) -> Iterator[Difference]:
    if not one.is_file() or not other.is_file():
        if one.is_file() != other.is_file():
            yield Difference(one.name, "", "other", "only one of the two runs has it at its end")
        return
    yield from _mappings(one.name, load(one), load(other), "other")


def _results(one: Path, other: Path) -> Iterator[Difference]:
    try:
        before, after = (json.loads(path.read_bytes()) for path in (one, other))
    except (OSError, ValueError):
        if one.read_bytes() != other.read_bytes():
            yield Difference(one.name, "", _RESULT, "other bytes, and no JSON")
        return
    for item in _mappings(one.name, before, after, _RESULT):
        yield item if item.part in ("weights", POSITION) else Difference(item.file, item.key, _RESULT, item.text)


def _table(path: Path) -> list[list[str]] | None:
    try:
        return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8", errors="replace"))))
    except (OSError, csv.Error):
        return None


def _rows(one: Path, other: Path) -> Iterator[Difference]:
    """The first row that differs in each column; a step that stands twice."""
    before, after = _table(one), _table(other)
    if not before or not after:
        if bool(before) != bool(after):
            yield Difference(one.name, "", _METRICS, "only one of the two runs has it")
        return
    header = before[0]
    if "step" in header and after[0] == header:
        column = header.index("step")
        steps = [row[column] for row in after[1:] if len(row) > column]
        twice = next((step for index, step in enumerate(steps) if step in steps[:index]), None)
        if twice is not None:
            yield Difference(one.name, f"step {twice}", _METRICS, "stands twice after the resume")
            return
    if len(before) != len(after) or after[0] != header:
        rows = f"{len(before) - 1} -> {len(after) - 1} rows" if after[0] == header else "other columns"
        yield Difference(one.name, "", _METRICS, rows)
        return
    told = set()
    for number, (row, row_after) in enumerate(zip(before[1:], after[1:], strict=True), start=1):
        for name, old, new in zip(header, row, row_after, strict=False):
            if old != new and name not in told:
                told.add(name)
                yield Difference(one.name, name, _METRICS, f"row {number}: {old} -> {new}")
        if len(row) != len(row_after):
            yield Difference(one.name, f"row {number}", _METRICS, "has another number of fields")
            return

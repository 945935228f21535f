"""The manifest as tensors: log estimates in, log discharge out."""

import csv
import datetime
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from unbroken.data.manifest import COLUMNS
from unbroken.errors import CollectionError

EPSILON_MM = 0.01
"""Added before the logarithm; mm/day."""


@dataclass(frozen=True)
class Basin:
    """One river: its days with every estimate."""

    id: str
    dates: list[str]
    estimates: torch.Tensor
    """float32 [days, products], mm/day"""
    observed: torch.Tensor
    """float32 [days], mm/day, NaN where the gauge has none"""
    train: torch.Tensor
    """bool [days]"""


@dataclass(frozen=True)
class Rivers:
    """All basins of a manifest."""

    basins: list[Basin]
    products: tuple[str, ...]
    fingerprint: str
    """SHA-256 of the manifest, which holds those of its files."""


def read_rivers(manifest: Path, check: Callable[[], None]) -> Rivers:
    """Read a manifest and its files, each checked against its hash. ``check`` polls for a stop between files.

    Raises:
        CollectionError: a file is missing, changed or malformed; names file and line.
    """
    content = _read(manifest)
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    if not rows or any(column not in rows[0] for column in COLUMNS):
        raise CollectionError(f"{manifest}: the columns {', '.join(COLUMNS)} and at least one row are needed")
    basins, products = [], None
    for row in rows:
        check()
        path = manifest.parent / row["file"]
        data = _read(path)
        if hashlib.sha256(data).hexdigest() != row["sha256"]:
            raise CollectionError(
                f"{path}: is not the file that {manifest} describes (SHA-256): make the manifest again"
            )
        names, basin = _basin(path, data, row["id"], row["train_end"])
        if products not in (None, names):
            raise CollectionError(
                f"{path}: has the estimates {', '.join(names)}, the files before have {', '.join(products or ())}"
            )
        products = names
        basins.append(basin)
    return Rivers(basins, products or (), hashlib.sha256(content).hexdigest())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CollectionError(f"{path}: cannot be read ({error.strerror}): make the manifest again") from error


def _basin(path: Path, data: bytes, name: str, train_end: str) -> tuple[tuple[str, ...], Basin]:
    lines = list(csv.reader(io.StringIO(data.decode())))
    header = lines[0] if lines else []
    columns = header[1:-1]
    if (
        header[:1] != ["date"]
        or header[-1:] != ["discharge_mm_day"]
        or not columns
        or any(c[:4] != "est_" for c in columns)
    ):
        raise CollectionError(f"{path}, line 1: the columns date, est_<product> ..., discharge_mm_day are needed")
    dates, values = [], []
    for number, fields in enumerate(lines[1:], start=2):
        try:
            dates.append(datetime.date.fromisoformat(fields[0]).isoformat())
            values.append([float(field) if field else float("nan") for field in fields[1:]])
            if len(fields) != len(header):
                raise ValueError(f"{len(fields)} fields for {len(header)} columns")
        except (ValueError, IndexError) as error:
            raise CollectionError(f"{path}, line {number}: {error}") from error
    table = torch.tensor(values, dtype=torch.float32).reshape(len(values), len(header) - 1)
    complete = ~torch.isnan(table[:, :-1]).any(dim=1)
    kept = [date for date, ok in zip(dates, complete.tolist(), strict=True) if ok]
    table = table[complete]
    if not bool((~torch.isnan(table[:, -1])).any()):
        raise CollectionError(f"{path}: no day has all estimates and a discharge")
    train = torch.tensor([date <= train_end for date in kept], dtype=torch.bool)
    return tuple(c.removeprefix("est_") for c in columns), Basin(name, kept, table[:, :-1], table[:, -1], train)

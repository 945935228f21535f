"""manifest_train.csv and the daily files it lists: what the consensus trainer reads.

The manifest has one row a basin: id, area_m2, file (beside it), sha256 of that file, train_end (the last training day).
A daily file has date, est_<product> for each estimate, discharge_mm_day (empty where the gauge has none), in mm/day.
"""

import datetime
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unbroken.data import bucket, camels, river
from unbroken.errors import CollectionError
from unbroken.run_dir.files import write_atomic

NAME = "manifest_train.csv"
COLUMNS = ("id", "area_m2", "file", "sha256", "train_end")
_KEYS = {
    "camels": {"source", "products", "basins", "train_end", "manifest"},
    "synthetic_river": {"source", "basins", "days", "seed", "train_fraction", "manifest"},
}


def make_manifest(data: Mapping[str, Any], out_dir: Path, camels_root: Path | None = None) -> Path:
    """Write the manifest that a collection's ``data:`` describes, and return its path. Same input, same bytes.

    Args:
        data: ``{source: camels, products: [daymet, ...], basins: [...], train_end: 2001-12-31}`` or
            ``{source: synthetic_river, basins: 2, days: 730, seed: 7}``.
        camels_root: the folder with daymet/, maurer/, nldas/ and usgs_streamflow/.

    Raises:
        CollectionError: a key or an input file is wrong; names it.
    """
    source = data.get("source")
    if source not in _KEYS:
        raise CollectionError(f"data.source is {source!r}; give {' or '.join(sorted(_KEYS))}")
    unknown = sorted(set(data) - _KEYS[source])
    if unknown:
        raise CollectionError(
            f"data has the unknown key {unknown[0]!r}; {source} knows {', '.join(sorted(_KEYS[source]))}"
        )
    if source == "camels":
        if camels_root is None:
            raise CollectionError(
                "data.source is camels, and data_roots.camels in config.yaml does not say where it lies"
            )
        rows = _from_camels(data, out_dir, camels_root)
    else:
        rows = _from_river(data, out_dir)
    text = "\n".join(",".join(row) for row in [COLUMNS, *rows]) + "\n"
    write_atomic(out_dir / NAME, text)
    return out_dir / NAME


def _daily_file(
    out_dir: Path, basin: str, first: datetime.date, estimates: Mapping[str, bucket.Array], observed: bucket.Array
) -> tuple[str, str]:
    """(name, SHA-256) of the file of one basin."""
    lines = [",".join(["date", *(f"est_{product}" for product in estimates), "discharge_mm_day"])]
    for day in range(len(observed)):
        date = (first + datetime.timedelta(days=day)).isoformat()
        values = [f"{estimate[day]:.4f}" for estimate in estimates.values()]
        lines.append(",".join([date, *values, "" if np.isnan(observed[day]) else f"{observed[day]:.4f}"]))
    content = ("\n".join(lines) + "\n").encode()
    name = f"basin_{basin}.csv"
    write_atomic(out_dir / name, content)
    return name, hashlib.sha256(content).hexdigest()


def _texts(data: Mapping[str, Any], key: str) -> list[str]:
    value = data.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, str | int) for item in value):
        raise CollectionError(f"data.{key} is {value!r}; give a list with at least one name")
    texts = [str(item).zfill(8) if key == "basins" else str(item) for item in value]
    if len(set(texts)) != len(texts) or any(not text.replace("_", "").isalnum() for text in texts):
        raise CollectionError(f"data.{key} is {value!r}; give different plain names")
    return texts


def _whole(data: Mapping[str, Any], key: str, least: int, default: int) -> int:
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CollectionError(f"data.{key} is {value!r}; give a whole number of at least {least}")
    return value


def _from_camels(data: Mapping[str, Any], out_dir: Path, root: Path) -> list[tuple[str, ...]]:
    products, basins = _texts(data, "products"), _texts(data, "basins")
    try:
        train_end = datetime.date.fromisoformat(str(data.get("train_end")))
    except ValueError:
        raise CollectionError(f"data.train_end is {data.get('train_end')!r}; give a date such as 2001-12-31") from None
    rows: list[tuple[str, ...]] = []
    for basin in basins:
        forcings = {product: camels.read_forcing(root, product, basin) for product in products}
        area = next(iter(forcings.values())).area_m2
        gauge = camels.read_discharge(root, basin, area)
        first = max([min(gauge), *(forcing.dates[0] for forcing in forcings.values())])
        last = min([max(gauge), *(forcing.dates[-1] for forcing in forcings.values())])
        if not first <= train_end < last:
            raise CollectionError(
                f"basin {basin}: products and gauge share {first} to {last}; data.train_end {train_end} must lie within"
            )
        dates = [first + datetime.timedelta(days=day) for day in range((last - first).days + 1)]
        observed = np.array([gauge.get(date, np.nan) for date in dates])
        train = [date <= train_end for date in dates]
        if not (~np.isnan(observed) & np.array(train)).any():
            raise CollectionError(f"basin {basin}: the gauge has no value up to data.train_end {train_end}")
        estimates = {}
        for product, forcing in forcings.items():
            weather = (np.array(forcing.precipitation), np.array(forcing.temperature), np.array(forcing.day_length))
            start = (first - forcing.dates[0]).days
            whole = bucket.simulate(*weather)
            estimates[product] = bucket.calibrated(whole[start : start + len(dates)], observed, train)
        name, digest = _daily_file(out_dir, basin, first, estimates, observed)
        rows.append((basin, f"{area:.0f}", name, digest, train_end.isoformat()))
    return rows


def _from_river(data: Mapping[str, Any], out_dir: Path) -> list[tuple[str, ...]]:
    basins, days = _whole(data, "basins", 1, 2), _whole(data, "days", 10, 730)
    seed, fraction = _whole(data, "seed", 0, 0), data.get("train_fraction", 2 / 3)
    if not isinstance(fraction, float) or not 0 < fraction < 1:
        raise CollectionError(f"data.train_fraction is {fraction!r}; give a number between 0 and 1")
    rows: list[tuple[str, ...]] = []
    for index in range(basins):
        observed, estimates, area = river.make_river(days, seed, index)
        basin = f"river{index + 1:02d}"
        name, digest = _daily_file(out_dir, basin, river.FIRST_DAY, estimates, observed)
        train_end = river.FIRST_DAY + datetime.timedelta(days=int(days * fraction) - 1)
        rows.append((basin, f"{area:.0f}", name, digest, train_end.isoformat()))
    return rows

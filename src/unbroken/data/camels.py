"""CAMELS-US files: daily forcings of one product, and the gauge's discharge.

Format and units: Newman et al. 2015 (doi:10.5194/hess-19-209-2015). Discharge of -999 means missing.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unbroken.errors import CollectionError

CUBIC_FOOT_M3 = 0.028316846592
_NEEDED = ("year", "mnth", "day", "dayl", "prcp", "tmax", "tmin")


@dataclass(frozen=True)
class Forcing:
    """One product's daily means over one basin."""

    area_m2: float
    dates: list[datetime.date]
    precipitation: list[float]
    """mm/day"""
    temperature: list[float]
    """Mean of the day's extremes, degC"""
    day_length: list[float]
    """Hours of light"""


def bad(path: Path, line: int | None, text: str) -> CollectionError:
    """The error to raise: file, line, what is wrong."""
    return CollectionError(f"{path}{'' if line is None else f', line {line}'}: {text}")


def read_lines(path: Path) -> list[str]:
    """The lines of an ASCII file; raises CollectionError."""
    try:
        return path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise bad(path, None, f"cannot be read ({getattr(error, 'strerror', None) or error})") from error


def one_file(folder: Path, pattern: str) -> Path:
    """The only file below ``folder`` that fits; raises CollectionError."""
    if not folder.is_dir():
        raise bad(folder, None, "there is no such folder; check data_roots and the product's name")
    found = sorted(folder.rglob(pattern))
    if len(found) != 1:
        raise bad(folder / pattern, None, f"{len(found) or 'no'} files fit, exactly one is needed")
    return found[0]


def _number(path: Path, line: int, text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise bad(path, line, f"{what} is {text!r}, not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise bad(path, line, f"{what} is {text!r}, not a finite number")
    return value


def _date(path: Path, line: int, year: str, month: str, day: str) -> datetime.date:
    try:
        return datetime.date(int(year), int(month), int(day))
    except ValueError:
        raise bad(path, line, f"{year} {month} {day} is no date") from None


def _check_daily(path: Path, dates: Sequence[datetime.date], first_line: int) -> None:
    for index in range(1, len(dates)):
        if (dates[index] - dates[index - 1]).days != 1:
            raise bad(
                path, first_line + index, f"{dates[index]} follows {dates[index - 1]}; the days must follow each other"
            )


def read_forcing(root: Path, product: str, gauge: str) -> Forcing:
    """One forcing file: latitude, elevation (m), area (m2), a line of column names, then a line a day.

    Raises:
        CollectionError: missing or malformed; names file and line.
    """
    path = one_file(root / product, f"{gauge}_lump_*_forcing_leap.txt")
    lines = read_lines(path)
    if len(lines) < 5:
        raise bad(path, None, f"has {len(lines)} lines; three header lines, the column names and days are needed")
    area = _number(path, 3, lines[2].strip(), "the basin area")
    if area <= 0:
        raise bad(path, 3, f"the basin area is {area} m2; it must be positive")
    names = [name.split("(")[0].lower() for name in lines[3].split()]
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise bad(path, 4, f"the columns {', '.join(missing)} are missing; there are {', '.join(names)}")
    at = {name: names.index(name) for name in _NEEDED}
    found = Forcing(area, [], [], [], [])
    for number, line in enumerate(lines[4:], start=5):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != len(names):
            raise bad(path, number, f"has {len(fields)} fields, {len(names)} are needed")
        found.dates.append(_date(path, number, *(fields[at[key]] for key in ("year", "mnth", "day"))))
        value = {key: _number(path, number, fields[at[key]], key) for key in ("dayl", "prcp", "tmax", "tmin")}
        if value["prcp"] < 0:
            raise bad(path, number, f"the precipitation is {value['prcp']:g} mm/day; it cannot be negative or missing")
        if min(value["tmax"], value["tmin"]) < -100:
            raise bad(
                path, number, f"the temperature is {min(value['tmax'], value['tmin']):g} degC; it cannot be missing"
            )
        found.precipitation.append(value["prcp"])
        found.temperature.append((value["tmax"] + value["tmin"]) / 2)
        found.day_length.append(value["dayl"] / 3600)
    if not found.dates:
        raise bad(path, None, "has no days")
    _check_daily(path, found.dates, 5)
    return found


def read_discharge(root: Path, gauge: str, area_m2: float) -> dict[datetime.date, float]:
    """Discharge in mm/day by date; missing days are left out.

    Raises:
        CollectionError: missing or malformed, or not one day has a value; names file and line.
    """
    path = one_file(root / "usgs_streamflow", f"{gauge}_streamflow_qc.txt")
    to_mm = CUBIC_FOOT_M3 * 86400 * 1000 / area_m2
    found: dict[datetime.date, float] = {}
    days = 0
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) not in (5, 6) or fields[0] != gauge:
            raise bad(path, number, f"is not `{gauge} year month day discharge flag`")
        date = _date(path, number, *fields[1:4])
        value = _number(path, number, fields[4], "the discharge")
        days += 1
        if value == -999:
            continue
        if value < 0:
            raise bad(path, number, f"the discharge is {value:g}; it must be positive, or -999 for missing")
        if date in found:
            raise bad(path, number, f"{date} stands there twice")
        found[date] = value * to_mm
    if not found:
        raise bad(path, None, f"has no discharge: all {days} days are missing" if days else "is empty")
    return found

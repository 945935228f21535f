"""Numbers, times and durations as a person reads them."""

import math
from datetime import UTC, datetime
from typing import Any


def number(value: Any, digits: int = 4) -> str:
    """A number to ``digits`` significant digits; anything else as its text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if isinstance(value, int) and abs(value) < 1_000_000:
        return f"{value:,}"
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 7:
        text = f"{value:,.{max(0, digits - 1 - size)}f}"
        return text.rstrip("0").rstrip(".") if "." in text and float(value).is_integer() else text
    return f"{value:.{digits - 1}e}"


def short(value: float) -> str:
    """A round number for an axis, without the digits that say nothing."""
    return (
        f"{value:,.0f}" if value == round(value) and 1000 <= abs(value) < 1e7 else f"{value:.6g}".replace("e-0", "e-")
    )


def duration(seconds: float | None) -> str:
    """``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``; two units at most."""
    if seconds is None:
        return ""
    if seconds < 0.95:
        return "0 s" if seconds <= 0 else f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, name, lower, lower_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            first, rest = divmod(whole, size)
            second = rest // lower
            return f"{first} {name}" + (f" {second} {lower_name}" if second and first < 100 else "")
    return f"{whole} s"


def hours(seconds: float, of: float | None = None) -> str:
    """Seconds as hours; as many decimals as ``of``, the largest number beside it, needs."""
    largest = (seconds if of is None else of) / 3600
    return f"{seconds / 3600:,.{1 if largest >= 100 else 2 if largest >= 1 else 4}f}"


def mebibytes(value: float | None) -> str:
    """Mebibytes as MiB or GiB."""
    if value is None:
        return ""
    return f"{value / 1024:.1f} GiB" if value >= 1024 else f"{value:.0f} MiB" if value >= 10 else f"{value:.1f} MiB"


def parse_time(value: Any) -> float | None:
    """An ISO 8601 time as seconds since 1970; one without offset is local; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def clock(seconds: float, form: str = "%Y-%m-%d %H:%M UTC") -> str:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 run``, ``2 runs``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"

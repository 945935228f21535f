"""CAMELS-format input for tests: the real sample where it lies beside the project, else files of the same format."""

import math
from datetime import date, timedelta
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "shared" / "data" / "camels_us_sample"
BASINS = ("01022500", "01547700", "02064000", "03015500")
PRODUCTS = ("daymet", "maurer", "nldas")
COLUMNS = "Year Mnth Day Hr\tdayl(s)\tprcp(mm/day)\tsrad(W/m2)\tswe(mm)\ttmax(C)\ttmin(C)\tvp(Pa)"
FIRST, DAYS = date(2000, 1, 1), 1096


def camels_root(folder: Path) -> Path:
    """The real sample, or a made one in `folder`. Recovery is the same for both; only the rivers differ."""
    if SAMPLE.is_dir():
        return SAMPLE
    for number, basin in enumerate(BASINS):
        for shift, product in enumerate(PRODUCTS):
            path = folder / product / f"{basin}_lump_cida_forcing_leap.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            head = f"45.0\n{100 + number}.0\n{500_000_000 + number}\n{COLUMNS}\n"
            path.write_text(head + "".join(forcing(day, number + shift) for day in range(DAYS)))
        gauge = folder / "usgs_streamflow" / f"{basin}_streamflow_qc.txt"
        gauge.parent.mkdir(parents=True, exist_ok=True)
        gauge.write_text("".join(discharge(basin, day, number) for day in range(DAYS)))
    return folder


def forcing(day: int, shift: int) -> str:
    when = FIRST + timedelta(days=day)
    rain = max(0.0, 6 * math.sin(day * 0.7 + shift) + 3 * math.sin(day * 0.11))
    warmth = 10 - 12 * math.cos(2 * math.pi * day / 365.25)
    return f"{when:%Y %m %d} 12\t40000.00\t{rain:.2f}\t250.00\t0.00\t{warmth + 5:.2f}\t{warmth - 5:.2f}\t800.00\n"


def discharge(basin: str, day: int, shift: int) -> str:
    when = FIRST + timedelta(days=day)
    return f"{basin} {when:%Y %m %d} {150 + 100 * math.sin(day * 0.11 - 0.5 + shift):.2f} A\n"

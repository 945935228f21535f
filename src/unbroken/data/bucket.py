"""From a basin's weather to its discharge: degree-day snow, one soil bucket, one linear reservoir.

Snow: melt = DDF * T above 0 degC (Hock 2003, doi:10.1016/S0022-1694(03)00257-9). Soil: HBV's recharge, water *
(S/Smax)^beta (Bergstroem 1976, SMHI RHO 7; Lindstroem et al. 1997, doi:10.1016/S0022-1694(97)00041-3).
Evaporation: Hamon's potential (Hamon 1961; Dingman 2002, eq. 7-63), reduced in dry soil. Outflow: k * storage a day.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DEGREE_DAY_FACTOR = 3.0
"""mm per degC and day"""
CAPACITY_MM = (75.0, 150.0, 300.0, 500.0)
BETA = (1.0, 2.0, 4.0)
OUTFLOW_PER_DAY = (0.03, 0.08, 0.2, 0.4)
PARAMETERS: Array = np.array(list(itertools.product(CAPACITY_MM, BETA, OUTFLOW_PER_DAY)))
"""[48, 3]: capacity (mm), beta, outflow (1/day); the calibration tries all."""
SPIN_UP_DAYS = 365


def potential_evaporation(temperature: Array, day_length: Array) -> Array:
    """mm/day, by Hamon: 29.8 * hours of light * saturation vapour pressure (kPa) / (T + 273.2)."""
    pressure = 0.611 * np.exp(17.3 * temperature / (temperature + 237.3))
    return np.asarray(29.8 * day_length * pressure / (temperature + 273.2))


def simulate(precipitation: Array, temperature: Array, day_length: Array, parameters: Array = PARAMETERS) -> Array:
    """Discharge in mm/day, [days, parameter sets]; the first year runs once before as spin-up.

    Args:
        precipitation: mm/day, [days]. temperature: degC. day_length: hours.
    """
    evaporation = potential_evaporation(temperature, day_length)
    capacity, beta, outflow = parameters.T
    snow, soil, store = 0.0, 0.5 * capacity, np.full(len(parameters), 5.0)
    discharge = np.zeros((len(precipitation), len(parameters)))
    days = [*range(min(SPIN_UP_DAYS, len(precipitation))), *range(len(precipitation))]
    for day in days:
        warm = max(float(temperature[day]), 0.0)
        rain = float(precipitation[day]) if temperature[day] > 0 else 0.0
        snow += float(precipitation[day]) - rain
        melt = min(snow, DEGREE_DAY_FACTOR * warm)
        snow -= melt
        water = rain + melt
        recharge = water * np.minimum(soil / capacity, 1.0) ** beta
        soil = soil + water - recharge
        over = np.maximum(soil - capacity, 0.0)
        soil = soil - over
        soil = np.maximum(soil - evaporation[day] * np.minimum(soil / (0.7 * capacity), 1.0), 0.0)
        store = store + recharge + over
        flow = outflow * store
        store = store - flow
        discharge[day] = flow
    return discharge


def calibrated(simulated: Array, observed: Array, train: Sequence[bool]) -> Array:
    """[days]: the simulation with the least squared error in log discharge on the observed training days.

    Args:
        simulated: mm/day, [days, sets]. observed: mm/day, [days], NaN where missing. train: which days count.
    """
    days = np.asarray(train) & ~np.isnan(observed)
    errors = np.log(simulated[days] + 0.01) - np.log(observed[days] + 0.01)[:, None]
    best = int(np.argmin(np.round((errors**2).mean(axis=0), 9)))
    return simulated[:, best]

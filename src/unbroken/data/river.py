"""A made-up river and several estimates of it: seeded, for demonstrations, since the real data is not ours to ship."""

import datetime

import numpy as np

from unbroken.data.bucket import Array, simulate

FIRST_DAY = datetime.date(2000, 1, 1)
PRODUCTS = ("a", "b", "c")
_TRUTH = np.array([[150.0, 2.0, 0.08]])
_WRONG = (np.array([[75.0, 2.0, 0.2]]), np.array([[300.0, 1.0, 0.03]]), np.array([[150.0, 4.0, 0.08]]))


def make_river(days: int, seed: int, basin: int) -> tuple[Array, dict[str, Array], float]:
    """(discharge in mm/day [days], estimates by product [days], basin area in m2).

    The truth is ``bucket.simulate`` on made-up weather; an estimate sees rain with multiplicative errors and has other
    parameters; the gauge errs by some percent.
    """
    random = np.random.Generator(np.random.PCG64([seed, basin]))
    season = 2 * np.pi * (np.arange(days) % 365.25) / 365.25
    temperature = 9 - 12 * np.cos(season) + random.normal(0, 3, days)
    day_length = 12 - 3 * np.cos(season)
    wet = random.random(days) < 0.35
    rain = np.where(wet, random.gamma(0.8, 9.0, days), 0.0)
    observed = simulate(rain, temperature, day_length, _TRUTH)[:, 0] * np.exp(random.normal(0, 0.05, days))
    estimates = {}
    for product, parameters in zip(PRODUCTS, _WRONG, strict=True):
        seen = rain * np.exp(random.normal(0.0, 0.4, days))
        estimates[product] = simulate(seen, temperature + random.normal(0, 1, days), day_length, parameters)[:, 0]
    return observed, estimates, float(np.round(10 ** random.uniform(8, 9)))

"""How good an estimate of discharge is, against the gauge. All series in mm/day, float64."""

import math
from collections.abc import Mapping

import torch

COLUMNS = ("nse", "kge", "rmse_mm_day", "bias")


def skill(simulated: torch.Tensor, observed: torch.Tensor) -> Mapping[str, float]:
    """Over the days with an observation; NaN where too few days, or no variance, allow none.

    nse: Nash and Sutcliffe 1970 (doi:10.1016/0022-1694(70)90255-6). kge: Gupta et al. 2009
    (doi:10.1016/j.jhydrol.2009.08.003), the first form, with the ratio of the standard deviations.
    rmse_mm_day: root mean square error, mm/day. bias: (mean simulated - mean observed) / mean observed.
    """
    there = ~torch.isnan(observed)
    sim, obs = simulated[there].double(), observed[there].double()
    if len(obs) < 2:
        return dict.fromkeys(COLUMNS, math.nan)
    error = sim - obs
    spread = ((obs - obs.mean()) ** 2).sum()
    nse = 1 - float((error**2).sum() / spread) if spread > 0 else math.nan
    bias = float(error.mean() / obs.mean()) if obs.mean() > 0 else math.nan
    product = ((sim - sim.mean()) * (obs - obs.mean())).sum()
    scale = (((sim - sim.mean()) ** 2).sum() * spread).sqrt()
    if scale > 0 and not math.isnan(bias):
        r, alpha = float(product / scale), float(sim.std() / obs.std())
        kge = 1 - math.sqrt((r - 1) ** 2 + (alpha - 1) ** 2 + bias**2)
    else:
        kge = math.nan
    return {"nse": nse, "kge": kge, "rmse_mm_day": float((error**2).mean().sqrt()), "bias": bias}

"""The mutual information gap, MIG (Chen, Li, Grosse and Duvenaud 2018, "Isolating sources of disentanglement in VAEs").

For each factor: how much more the most informative latent coordinate tells about it than the second most informative
one, as a share of the factor's entropy; 1 where one coordinate alone knows it, 0 where two know equally much. MIG is
the mean over the factors. Mutual information is estimated from counts, the latent means cut into bins of equal width
(as in Locatello et al. 2019, disentanglement_lib); its bias, about (bins - 1)(levels - 1) / 2n nats, nearly cancels
in the gap.
"""

import torch

BINS = 20


def into_bins(values: torch.Tensor, bins: int = BINS) -> torch.Tensor:
    """int64 [n, d]: each column of ``values``, float [n, d], cut into bins of equal width between its ends."""
    values = values.double()
    low, high = values.min(dim=0).values, values.max(dim=0).values
    width = (high - low).clamp_min(1e-12)
    return ((values - low) / width * bins).long().clamp(0, bins - 1)


def mutual_information(codes: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """float64 [d, k], nats: between each column of ``codes``, int64 [n, d], and each of ``levels``, int64 [n, k]."""
    rows = []
    for code in codes.T:
        row = []
        for level in levels.T:
            counts = torch.zeros(int(code.max()) + 1, int(level.max()) + 1, dtype=torch.float64)
            counts.index_put_((code, level), torch.ones(len(code), dtype=torch.float64), accumulate=True)
            joint = counts / counts.sum()
            apart = joint.sum(dim=1, keepdim=True) * joint.sum(dim=0, keepdim=True)
            ratio = torch.where(joint > 0, joint / apart.clamp_min(1e-300), 1.0)
            row.append((joint * ratio.log()).sum())
        rows.append(torch.stack(row))
    return torch.stack(rows)


def entropy(levels: torch.Tensor) -> torch.Tensor:
    """float64 [k], nats: of each column of ``levels``, int64 [n, k]."""
    shares = [column.bincount().double() / len(column) for column in levels.T]
    return torch.stack([-torch.special.xlogy(share, share).sum() for share in shares])


def gaps(means: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """float64 [k], from 0 to 1: the gap of each factor; 0 for a factor that does not vary.

    Args:
        means: float [n, d], the latent means.
        levels: int64 [n, k], the factors.
    """
    information = mutual_information(into_bins(means), levels).sort(dim=0, descending=True).values
    second = information[1] if len(information) > 1 else torch.zeros_like(information[0])
    spread = entropy(levels)
    return torch.where(spread > 0, (information[0] - second) / spread.clamp_min(1e-300), 0.0)


def mutual_information_gap(means: torch.Tensor, levels: torch.Tensor) -> float:
    """The mean of ``gaps``: MIG."""
    return float(gaps(means, levels).mean())

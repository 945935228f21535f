"""Which record comes when: a permutation a epoch, rebuilt from a few integers and sliced, never iterated."""

from typing import Literal

import torch

from unbroken.training.rng import derive

OrderMode = Literal["epoch_seeded", "legacy_random_sampler"]
EPOCH_SEEDED: OrderMode = "epoch_seeded"
LEGACY: OrderMode = "legacy_random_sampler"


def epoch_order(seed: int, epoch: int, records: int) -> torch.Tensor:
    """int64 [records]: the permutation of one epoch, from a generator of its own seeded with seed + epoch."""
    return torch.randperm(records, generator=torch.Generator().manual_seed(seed + epoch))


def record_seed(seed: int, epoch: int, record: int) -> int:
    """The seed for whatever is random about one record in one epoch (augmentation).

    It knows neither the batch nor the worker, so the number of workers changes no result.
    """
    return derive(seed, epoch, record)


def record_generator(seed: int, epoch: int, record: int) -> torch.Generator:
    """A generator seeded by ``record_seed``."""
    return torch.Generator().manual_seed(record_seed(seed, epoch, record))


def draw_sampler_seed() -> int:
    """What ``iter(DataLoader(shuffle=True))`` draws from the global generator before an epoch; advances it.

    The loader draws the base seed of its workers first, then RandomSampler draws the seed returned here
    (torch.utils.data.dataloader._BaseDataLoaderIter, torch.utils.data.sampler.RandomSampler).
    """
    torch.empty((), dtype=torch.int64).random_()
    return int(torch.empty((), dtype=torch.int64).random_().item())


def sampler_order(sampler_seed: int, records: int) -> torch.Tensor:
    """int64 [records]: the order RandomSampler made of its seed."""
    return torch.randperm(records, generator=torch.Generator().manual_seed(sampler_seed))


def peek_sampler_seed() -> int:
    """As ``draw_sampler_seed``, and the global generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        return draw_sampler_seed()

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


class Orders:
    """The order of each epoch of one run, made when it is asked for."""

    def __init__(self, seed: int, records: int, mode: OrderMode = EPOCH_SEEDED) -> None:
        self.seed, self.records, self.mode = seed, records, mode
        self.epoch = -1
        self.sampler_seed: int | None = None
        """Of ``epoch``, in the legacy mode."""
        self._order = torch.empty(0, dtype=torch.int64)

    def of(self, epoch: int) -> torch.Tensor:
        """int64 [records]. In the legacy mode a new epoch advances the global generator, as it did then."""
        if epoch != self.epoch:
            if self.mode == LEGACY:
                self.set_sampler(epoch, draw_sampler_seed())
            else:
                self.epoch, self._order = epoch, epoch_order(self.seed, epoch, self.records)
        return self._order

    def set_sampler(self, epoch: int, sampler_seed: int) -> None:
        """The legacy order of ``epoch``, whose sampler seed was drawn before."""
        self.epoch, self.sampler_seed = epoch, sampler_seed
        self._order = sampler_order(sampler_seed, self.records)

    def state(self) -> dict[str, int | str | None]:
        """For the checkpoint: seed and epoch alone make the order, but for the legacy mode."""
        legacy = self.mode == LEGACY
        return {"mode": self.mode, "epoch": self.epoch if legacy else None, "sampler_seed": self.sampler_seed}

"""A DataLoader that a resume can start in the middle of an epoch, without reading what comes before."""

import functools
import os
from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from unbroken.training import preemption
from unbroken.training.order import epoch_order


class EpochOrder(Sampler[int]):
    """The permutation of seed + epoch, from ``consumed`` on."""

    def __init__(self, seed: int, records: int) -> None:
        self.seed, self.records = seed, records
        self.epoch = 0
        self.consumed = 0
        """Records of this epoch that the trainer has had."""

    def set_epoch(self, epoch: int) -> None:
        """Lightning says before each epoch which it is; after a resume it is the one that is half done."""
        if epoch != self.epoch:
            self.epoch, self.consumed = epoch, 0

    def __iter__(self) -> Iterator[int]:
        return iter(epoch_order(self.seed, self.epoch, self.records)[self.consumed :].tolist())

    def __len__(self) -> int:
        return self.records


class EpochLoader(DataLoader[Any]):
    """``DataLoader`` in the order of ``EpochOrder``; its state is two numbers. Draws from no global generator."""

    def __init__(self, dataset: Dataset[Any], seed: int, batch_size: int, **options: Any) -> None:
        for name in ("shuffle", "sampler", "batch_sampler", "generator"):
            if name in options:
                raise TypeError(f"{name} is the loader's own: the order of the records follows from seed and epoch")
        self.order = EpochOrder(seed, len(cast(Sized, dataset)))
        if options.get("num_workers"):
            options.setdefault("worker_init_fn", functools.partial(_begin_worker, os.getpid()))
        super().__init__(
            dataset, batch_size, sampler=self.order, generator=torch.Generator().manual_seed(seed), **options
        )

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        assert self.batch_size is not None
        for batch in super().__iter__():
            self.order.consumed += self.batch_size
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Where the trainer is, whatever workers have fetched ahead."""
        return {"epoch": self.order.epoch, "consumed": self.order.consumed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.order.epoch, self.order.consumed = int(state["epoch"]), int(state["consumed"])


def _begin_worker(parent: int, worker_id: int) -> None:
    preemption.shield_worker(parent)

"""DataLoaders whose order can be rebuilt after a restart, and whose workers leave the signals to the trainer."""

import atexit
import contextlib
import functools
import os
import weakref
from collections.abc import Iterator, Sized
from typing import Any, cast

import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, SequentialSampler
from torch.utils.data._utils import signal_handling
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

from unbroken.training import preemption


class _FromBatch(Sampler[int]):
    """The records of another sampler from one on: the order is drawn whole and sliced, nothing is loaded in vain."""

    def __init__(self, order: RandomSampler | SequentialSampler, first: int) -> None:
        self.order, self.first = order, first

    def __iter__(self) -> Iterator[int]:
        return iter(list(self.order)[self.first :])

    def __len__(self) -> int:
        return max(len(self.order) - self.first, 0)


class _Workers(_MultiProcessingDataLoaderIter):
    """Ends its workers with SIGKILL: they ignore SIGTERM, and torch would wait for one that sleeps in a fetch."""

    def _shutdown_workers(self) -> None:
        if not getattr(self, "_shutdown", True):
            with contextlib.suppress(Exception):  # else torch takes the kill for a crash
                signal_handling._remove_worker_pids(id(self))  # type: ignore[attr-defined]
                self._worker_pids_set = False
            for process in self._workers:
                process.kill()
            for process in self._workers:
                process.join()
        super()._shutdown_workers()


class _Loader(DataLoader[Any]):
    def _get_iterator(self) -> _BaseDataLoaderIter:
        if not self.num_workers:
            return super()._get_iterator()
        iterator = _Workers(self)
        _LIVE.add(iterator)
        return iterator


_LIVE: weakref.WeakSet[_Workers] = weakref.WeakSet()


@atexit.register
def _end_workers() -> None:
    """Before multiprocessing waits for them."""
    for iterator in list(_LIVE):
        iterator._shutdown_workers()


def baseline_loader(
    dataset: Dataset[Any],
    batch_size: int,
    *,
    shuffle: bool = False,
    generator: torch.Generator | None = None,
    first_batch: int = 0,
    workers: int = 0,
    drop_last: bool = False,
) -> DataLoader[Any]:
    """A DataLoader over a dataset with a length.

    The order comes from ``generator`` and from nothing else: seeded with seed + epoch, it is ``order.epoch_order``. The
    workers' base seed has a generator of its own, because DataLoader draws it before the sampler draws (with one shared
    generator the order would not be the permutation of that seed), and because without one it would draw from the
    global generator even where nothing is shuffled.

    Args:
        generator: None with ``shuffle`` is the historical loader: both are drawn from the global generator.
        first_batch: batches of the epoch that are committed already.
        workers: worker processes. They ignore the stop signals, and end with the iterator or with the trainer.

    Raises:
        ValueError: ``first_batch`` with the historical loader.
    """
    if shuffle and generator is None:
        sampler: Sampler[int] = RandomSampler(cast(Sized, dataset))
        own = None
    else:
        order = (
            RandomSampler(cast(Sized, dataset), generator=generator)
            if shuffle
            else SequentialSampler(cast(Sized, dataset))
        )
        sampler = _FromBatch(order, first_batch * batch_size) if first_batch else order
        own = torch.Generator().manual_seed(0)
    if first_batch and own is None:
        raise ValueError("first_batch needs a generator: the global one cannot be wound back to the start of the epoch")
    return _Loader(
        dataset,
        batch_size=batch_size,
        sampler=sampler,
        drop_last=drop_last,
        num_workers=workers,
        worker_init_fn=functools.partial(_begin_worker, os.getpid()) if workers else None,
        generator=own,
    )


def _begin_worker(trainer: int, worker: int) -> None:
    preemption.shield_worker(trainer)

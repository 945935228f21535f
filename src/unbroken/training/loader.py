"""Micro-batches for the loop, fetched here or by worker processes; how many there are changes no result."""

import contextlib
import functools
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler
from torch.utils.data._utils import signal_handling

from unbroken.training import preemption, rng
from unbroken.training.parts import Task

_LONGEST = 70
"""Of a folder for sockets: their paths may have 107 bytes, and /pymp-xxxxxxxx/listener-xxxxxxxx comes after it."""

Request = tuple[torch.Tensor, int]
"""Record indices of one micro-batch (int64) and the epoch."""


def fetch(task: Task, seed: int, request: Request) -> Any:
    """One micro-batch; where the task augments, from global generators seeded by what is fetched."""
    records, epoch = request
    if not task.augments:
        return task.fetch(records, epoch)
    first = int(records[0]) if len(records) else -1
    before = rng.capture_python(), np.random.get_state(), torch.get_rng_state()
    own = rng.derive(seed, epoch, first, len(records))
    random.seed(own)
    np.random.seed(own % 2**32)
    torch.default_generator.manual_seed(own)
    try:
        return task.fetch(records, epoch)
    finally:
        rng.restore_python(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


Sent = tuple[np.ndarray, int]
"""A request on its way to a worker; torch would put a tensor into shared memory and open a socket for it."""


class _Requests(Sampler[Sent]):
    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests

    def __iter__(self) -> Iterator[Sent]:
        return ((records.numpy(), epoch) for records, epoch in self.requests)

    def __len__(self) -> int:
        return len(self.requests)


class _Fetching(Dataset[Any]):
    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed = task, seed

    def __getitem__(self, sent: Sent) -> Any:
        return fetch(self.task, self.seed, (torch.from_numpy(sent[0]), sent[1]))


def _as_it_is(value: Any) -> Any:
    return value


def _begin_worker(parent: int, folder: str, worker_id: int) -> None:
    preemption.shield_worker(parent)
    if len(folder) <= _LONGEST:
        tempfile.tempdir = folder  # the sockets that hand tensors over: a killed worker does not remove its own


class Fetcher:
    """Fetches the micro-batches of one epoch, in order, ahead of their use where there are workers."""

    def __init__(self, task: Task, seed: int, workers: int) -> None:
        self.task, self.seed, self.workers = task, seed, workers
        self._iterator: Any = None
        self._temporary: str | None = None
        """For temporary files of the workers."""

    def start(self, requests: Sequence[Request]) -> None:
        """Begin with the micro-batches to come; the workers' own generator keeps the global one untouched."""
        self._end_workers()
        if self.workers:
            self._temporary = self._temporary or tempfile.mkdtemp(prefix="ub")
            loader: DataLoader[Any] = DataLoader(
                _Fetching(self.task, self.seed),
                sampler=_Requests(requests),
                batch_size=None,
                num_workers=self.workers,
                collate_fn=_as_it_is,
                worker_init_fn=functools.partial(_begin_worker, os.getpid(), self._temporary),
                multiprocessing_context="fork",
                generator=torch.Generator().manual_seed(self.seed),
            )
            self._iterator = iter(loader)

    def next(self, request: Request) -> Any:
        """The next micro-batch; ``request`` is the next of those given to ``start``."""
        if self._iterator is not None:
            return next(self._iterator)
        threads = torch.get_num_threads()
        if threads == 1:
            return fetch(self.task, self.seed, request)
        torch.set_num_threads(1)  # as in a worker, so that sums come out the same
        try:
            return fetch(self.task, self.seed, request)
        finally:
            torch.set_num_threads(threads)

    def close(self) -> None:
        """End the workers now; nothing of them stays on the disk."""
        self._end_workers()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _end_workers(self) -> None:
        """At once. They ignore SIGTERM, with which torch would wait for them, so they are killed."""
        iterator, self._iterator = self._iterator, None
        processes = list(getattr(iterator, "_workers", ()))
        if not processes:
            return
        with contextlib.suppress(Exception):  # else torch takes the kill for a crash
            signal_handling._remove_worker_pids(id(iterator))  # type: ignore[attr-defined]
            iterator._worker_pids_set = False
        for process in processes:
            process.kill()
        for process in processes:
            process.join()

"""Row 7: finding the place in the middle of an epoch of a million records."""

import torch

from benchmarks.harness import Figure, Sample, compare, timed
from benchmarks.options import Options
from unbroken.training.order import Orders

RECORDS, BATCH = 1_000_000, 128


def seek(batch: int) -> Sample:
    """A fresh process knows only seed and epoch: make the order, take the batch."""
    return timed(lambda: Orders(1, RECORDS).of(3)[batch * BATCH : (batch + 1) * BATCH])


def floor() -> Sample:
    return timed(lambda: torch.randperm(RECORDS, generator=torch.Generator().manual_seed(1)))


def measure(options: Options) -> list[Figure]:
    """At the beginning, in the middle and at the end; torchdata's StatefulDataLoader where it is installed."""
    torch.set_num_threads(1)
    batches = RECORDS // BATCH
    figures = [
        compare(
            7, f"seek to batch {batch} of {batches}", 1.2, lambda batch=batch: seek(batch), floor, options.rounds(21, 9)
        )
        for batch in (0, batches // 2, batches - 1)
    ]
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ImportError:
        return figures
    loader = StatefulDataLoader(range(RECORDS), batch_size=BATCH, shuffle=True, generator=torch.Generator())
    iterator = iter(loader)
    for _ in range(batches // 2):
        next(iterator)
    state = loader.state_dict()

    def theirs() -> Sample:
        fresh = StatefulDataLoader(range(RECORDS), batch_size=BATCH, shuffle=True, generator=torch.Generator())

        def resume() -> None:
            fresh.load_state_dict(state)
            next(iter(fresh))

        return timed(resume)

    note = "for comparison"
    name = "torchdata StatefulDataLoader, to the middle"
    return [*figures, compare(7, name, None, theirs, floor, options.rounds(7, 3), note)]

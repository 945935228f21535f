"""Row 2: how long training stands still for a periodic save, against a memcpy of the same bytes."""

import torch

from benchmarks.harness import Figure, Sample, compare, timed
from benchmarks.options import Options
from benchmarks.subject import payload
from unbroken.collection.run_dir import RunPaths
from unbroken.training.async_store import AsyncStore
from unbroken.training.payload import tensors


def measure(options: Options) -> list[Figure]:
    """At 120 MB, in the steady state: the first save also allocates the buffers."""
    torch.set_num_threads(1)  # as a trainer has it
    content = payload(120)
    store = AsyncStore(RunPaths(options.folder / "stall"))
    first = timed(lambda: store.begin(content, {"global_step": 0}))
    store.flush()
    size = sum(tensor.nbytes for tensor in tensors(content))
    source, target = torch.ones(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)

    def ours() -> Sample:
        stall = timed(lambda: store.begin(content, {"global_step": 1}))
        store.flush()
        return stall

    def synchronous() -> Sample:
        return timed(lambda: store.save(content, {"global_step": 1}))

    def floor() -> Sample:
        return timed(lambda: target.copy_(source))

    rounds = options.rounds(15, 7)
    stall = compare(2, "stall of a periodic save, 120 MB", 1.5, ours, floor, rounds)
    stall.parts["first_save_s"] = first.wall
    note = "for comparison"
    return [stall, compare(2, "a synchronous save, 120 MB", None, synchronous, floor, options.rounds(5, 3), note)]

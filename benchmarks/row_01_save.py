"""Row 1: a durable save of last.pt against an O_DIRECT write of the same bytes."""

import hashlib
import mmap
import os
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import Figure, Sample, compare, timed
from benchmarks.options import Options
from benchmarks.subject import payload
from unbroken.collection.run_dir import RunPaths
from unbroken.training.checkpoint import CheckpointStore

CHUNK = 8 << 20


def direct_writer(path: Path, size: int) -> Any:
    """A function that writes ``size`` bytes past the page cache and waits for the disk."""
    memory = mmap.mmap(-1, (size + 4095) // 4096 * 4096)
    view = memoryview(memory)
    for first in range(0, len(memory), CHUNK):
        view[first : first + CHUNK] = os.urandom(min(CHUNK, len(memory) - first))

    def write() -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o644)
        for first in range(0, len(memory), CHUNK):
            os.write(file, view[first : first + CHUNK])
        os.fsync(file)
        os.close(file)

    return lambda: timed(write)


def plain_save(path: Path, content: Any) -> None:
    """torch.save, durable and atomic: what a careful person writes."""
    beside = path.with_suffix(".new")
    with open(beside, "wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def measure(options: Options) -> list[Figure]:
    """At 12 and 120 MB."""
    torch.set_num_threads(1)
    figures = []
    for megabytes, goal in ((12, 1.4), (120, 1.3)):
        content = payload(megabytes)
        store = CheckpointStore(RunPaths(options.folder / f"save_{megabytes}"))

        def ours(store: CheckpointStore = store, content: Any = content) -> Sample:
            return timed(lambda: store.save(content, {"global_step": 1}))

        ours()
        floor = direct_writer(options.folder / "direct.bin", store.paths.last.stat().st_size)
        plain = options.folder / "plain.pt"
        rounds = options.rounds(9, 3)
        figures.append(compare(1, f"durable save, {megabytes} MB", goal, ours, floor, rounds))
        data = store.paths.last.read_bytes()
        figures.append(
            compare(
                1, f"SHA-256 alone, of the same bytes in memory, {megabytes} MB", None,
                lambda data=data: timed(lambda: hashlib.sha256(data)), floor, rounds,
                note="for comparison: no save with a hash is quicker than its hash, however quick the disk",
            )
        )  # fmt: skip
        figures.append(
            compare(
                1, f"torch.save, fsync, rename, {megabytes} MB", None,
                lambda content=content, plain=plain: timed(lambda: plain_save(plain, content)), floor, rounds,
                note="for comparison; without a hash",
            )
        )  # fmt: skip
    return figures

"""Row 1: a durable save of last.pt against an O_DIRECT write of the same bytes."""

import hashlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import Figure, compare, timed
from benchmarks.options import Options
from benchmarks.slow_disk import RATE, held_to_rate
from benchmarks.subject import payload
from unbroken.collection.run_dir import RunPaths
from unbroken.training.checkpoint import CheckpointStore

CHUNK = 8 << 20
HASH = "for comparison: no save with a hash is quicker than its hash, however quick the disk"
PLAIN = "for comparison; without a hash"


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

    return write


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
    """At 12 and 120 MB; 120 MB once more on a disk of the goals' speed (12 MB pass the kernel's limit unheld)."""
    torch.set_num_threads(1)
    figures = _figures(options, 12, 1.4) + _figures(options, 120, 1.3)
    with held_to_rate(options.folder) as held:
        return figures + (_figures(options, 120, 1.3, f", disk held to {RATE // 10**6} MB/s") if held else [])


def _figures(options: Options, megabytes: int, goal: float, where: str = "") -> list[Figure]:
    content = payload(megabytes)
    store = CheckpointStore(RunPaths(options.folder / f"save_{megabytes}"))
    store.save(content, {"global_step": 1})
    write = direct_writer(options.folder / "direct.bin", store.paths.last.stat().st_size)
    data = store.paths.last.read_bytes()
    rounds, size = options.rounds(9, 3), f"{megabytes} MB{where}"

    def figure(name: str, goal: float | None, save: Callable[[], Any], note: str = "") -> Figure:
        return compare(1, f"{name}, {size}", goal, lambda: timed(save), lambda: timed(write), rounds, note)

    return [
        figure("durable save", goal, lambda: store.save(content, {"global_step": 1})),
        figure("SHA-256 alone, of the same bytes in memory", None, lambda: hashlib.sha256(data), HASH),
        figure("torch.save, fsync, rename", None, lambda: plain_save(options.folder / "plain.pt", content), PLAIN),
    ]

"""Row 5: from the end of the effective batch in which a signal came to the trainer's exit, against a durable save."""

import itertools
import signal
import time
from pathlib import Path

import torch

from benchmarks.harness import Figure, Sample, compare, median, timed
from benchmarks.options import Options
from benchmarks.processes import start, trace, wait_for_steps
from benchmarks.slow_disk import RATE, held_to_rate
from unbroken.collection.run_dir import RunPaths
from unbroken.training.checkpoint import CheckpointStore

CONFIG = {"width": 2800, "batch_size": 4, "records": 4 * 2000, "epochs": 1, "checkpoint_interval": 0}
"""96 MB of weights and moments."""


def measure(options: Options) -> list[Figure]:
    """The step that was running is taken to last as long as the median step before it."""
    figures = [_figure(options, "exit", "")]
    with held_to_rate(options.folder) as held:
        return figures + ([_figure(options, "slow", f", disk held to {RATE // 10**6} MB/s")] if held else [])


def _figure(options: Options, name: str, where: str) -> Figure:
    folder = options.folder / name
    process = start(folder, **CONFIG)
    wait_for_steps(folder, process, 10)
    process.send_signal(signal.SIGTERM)
    process.wait()
    content = torch.load(RunPaths(folder).last, weights_only=True)
    store = CheckpointStore(RunPaths(options.folder / f"{name}_floor"))
    parts: list[float] = []

    def ours() -> Sample:
        sample, gone = stop(folder)
        parts.append(gone)
        return sample

    def floor() -> Sample:
        return timed(lambda: store.save(content, {"global_step": 1}))

    figure = compare(5, f"signal to exit, less the effective batch{where}", 1.2, ours, floor, options.rounds(9, 3))
    figure.parts["from the last record to the end of the process"] = median(parts)
    return figure


def stop(folder: Path) -> tuple[Sample, float]:
    """Seconds from the boundary after the signal to the exit; and from the last file written to it."""
    before = len(trace(folder))
    process = start(folder, **CONFIG)
    wait_for_steps(folder, process, before + 12)
    sent = time.time()
    process.send_signal(signal.SIGTERM)
    process.wait()
    ended = time.time()
    times = [at for _, at in trace(folder)[before:]]
    lengths = sorted(b - a for a, b in itertools.pairwise(times))
    boundary = max(times[-1] + lengths[len(lengths) // 2], sent)
    last = max(path.stat().st_mtime for path in folder.rglob("*") if path.is_file())
    return Sample(ended - boundary), ended - last

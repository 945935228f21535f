"""Row 5: from the end of the effective batch in which a signal came to the trainer's exit, against a durable save."""

import itertools
import signal
import time
from pathlib import Path

import torch

from benchmarks.harness import Figure, Sample, compare, timed
from benchmarks.options import Options
from benchmarks.processes import start, trace, wait_for_steps
from unbroken.collection.run_dir import RunPaths
from unbroken.training.checkpoint import CheckpointStore

CONFIG = {"width": 2800, "batch_size": 4, "records": 4 * 2000, "epochs": 1, "checkpoint_interval": 0}
"""96 MB of weights and moments."""


def measure(options: Options) -> list[Figure]:
    """The step that was running is taken to last as long as the median step before it."""
    folder = options.folder / "exit"
    process = start(folder, **CONFIG)
    wait_for_steps(folder, process, 10)
    process.send_signal(signal.SIGTERM)
    process.wait()
    content = torch.load(RunPaths(folder).last, weights_only=True)
    store = CheckpointStore(RunPaths(options.folder / "exit_floor"))

    def ours() -> Sample:
        return stop(folder)

    def floor() -> Sample:
        return timed(lambda: store.save(content, {"global_step": 1}))

    return [compare(5, "signal to exit, less the effective batch", 1.2, ours, floor, options.rounds(9, 3))]


def stop(folder: Path) -> Sample:
    """Seconds from the boundary after the signal to the exit."""
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
    return Sample(ended - boundary)

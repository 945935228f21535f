"""Row 3: our loop against the bare PyTorch loop of the same model, without saves and at the advised interval."""

import contextlib
import io
import itertools
import math
from pathlib import Path

import torch

from benchmarks.harness import Figure, Sample, compare, median, quartiles
from benchmarks.options import Options
from benchmarks.subject import Regression, bare_loop
from unbroken.run_dir.unwarned import PRIOR_HOURS
from unbroken.training import preemption
from unbroken.training.interval import AT_LEAST_S
from unbroken.training.loop import Settings, train
from unbroken.training.session import Session

BATCH = 64
WARM_STEPS = 10
_numbers = itertools.count()


def our_loop(folder: Path, width: int, steps: int, interval: int = 0) -> Sample:
    """Seconds of one step between the first steps and the last, under our session."""
    task = Regression(width, steps * BATCH)
    config = {"batch_size": BATCH, "checkpoint_interval": interval, "width": width}
    preemption.FLAG.clear()
    with contextlib.redirect_stdout(io.StringIO()), Session.open(folder / str(next(_numbers)), config, 1) as session:
        train(task, session, Settings.of(config))
    return _a_step(task)


def their_loop(folder: Path, width: int, steps: int) -> Sample:
    task = Regression(width, steps * BATCH)
    bare_loop(task, BATCH, 1, folder / "bare.csv")
    return _a_step(task)


def _a_step(task: Regression) -> Sample:
    used = task.times[WARM_STEPS:]
    return Sample((used[-1] - used[0]) / (len(used) - 1))


def measure(options: Options) -> list[Figure]:
    """A model whose step takes some milliseconds, and one whose step takes none, for the overhead itself.

    Many short rounds: the machine's speed drifts by several percent within seconds.
    """
    torch.set_num_threads(1)
    folder = options.folder / "loop"
    folder.mkdir()
    width, steps = 1024, 40
    rounds = options.rounds(121, 15)
    plain = compare(
        3, "our loop, no saves", 1.01,
        lambda: our_loop(folder, width, steps), lambda: their_loop(folder, width, steps), rounds,
    )  # fmt: skip
    small = 310
    pairs = [
        (our_loop(folder, 8, small).wall, their_loop(folder, 8, small).wall) for _ in range(options.rounds(100, 20))
    ]
    added = sorted(ours - theirs for ours, theirs in pairs)
    overhead = Figure(
        3, "our loop's own time a step", None, None, "us", rounds=len(added), note="a step of nothing: 64 x 8 weights"
    )
    overhead.value, overhead.low, overhead.high = (1e6 * value for value in (median(added), *quartiles(added)))
    overhead.parts = {"bare_step_s": median(theirs for _, theirs in pairs)}
    step_s = plain.parts["floor_s"]
    plain.note = (
        f"a step takes {1e3 * step_s:.2f} ms; by the overhead measured apart the ratio is "
        f"{1 + overhead.value / 1e6 / step_s:.4f}"
    )
    return [plain, overhead, _with_saves(folder, width, 210, step_s, overhead.value / 1e6, options)]


def _with_saves(folder: Path, width: int, steps: int, step_s: float, own_s: float, options: Options) -> Figure:
    """What one save costs the training in all, its slower steps included, spread over the advised interval."""
    every = max(steps // 4, 2)
    saves = (steps - 1) // every
    costs = []
    for _ in range(options.rounds(9, 3)):
        without, with_saves = (our_loop(folder, width, steps, interval).wall for interval in (0, every))
        costs.append((with_saves - without) * (steps - WARM_STEPS) / saves)
    cost = max(median(costs), 0.0)
    advised = max(AT_LEAST_S, math.sqrt(2 * cost * PRIOR_HOURS * 3600))
    figure = Figure(3, "our loop, at the advised interval", 1 + own_s / step_s + cost / advised, 1.02)
    figure.low, figure.high = (1 + own_s / step_s + max(f(costs), 0) / advised for f in (min, max))
    figure.rounds, figure.parts = len(costs), {"cost_of_a_save_s": cost, "interval_s": advised}
    figure.note = "the overhead of the row above, and the whole cost of a save spread over the advised interval"
    return figure

"""Row 4: committed effective batches that are trained again after a stop, warned and unwarned."""

import random
import signal
import time
from pathlib import Path

from benchmarks.harness import Figure
from benchmarks.options import Options
from benchmarks.processes import start, trace, wait_for_steps

CONFIG = {"width": 128, "batch_size": 16, "records": 16 * 400, "epochs": 1, "checkpoint_interval": 25, "pace_s": 0.003}
STEPS = 400


def replayed(folder: Path, number: signal.Signals, generator: random.Random) -> int:
    """Steps begun twice by one stop. The step that the signal interrupted was not committed and counts for nothing."""
    process = start(folder, **CONFIG)
    wait_for_steps(folder, process, generator.randrange(40, 300))
    time.sleep(generator.random() * 0.01)
    process.send_signal(number)
    process.wait()
    begun = trace(folder)[-1][0] + 1
    committed = begun if number == signal.SIGTERM else begun - 1
    process = start(folder, **CONFIG)
    wait_for_steps(folder, process, len(trace(folder)) + 1)
    process.kill()
    process.wait()
    steps = [step for step, _ in trace(folder)]
    return max(committed - steps[begun], 0)


def measure(options: Options) -> list[Figure]:
    """SIGTERM and SIGKILL at random times."""
    figures = []
    for number, goal in ((signal.SIGTERM, 0), (signal.SIGKILL, CONFIG["checkpoint_interval"])):
        generator = random.Random(int(number))
        rounds = options.rounds(6, 1)
        counts = [replayed(options.folder / f"{number.name}_{n}", number, generator) for n in range(rounds)]
        name = f"batches replayed after {number.name} (the worst of {rounds})"
        figure = Figure(4, name, max(counts), float(goal), "batches", min(counts), max(counts), rounds=rounds)
        figure.note = f"a save every {CONFIG['checkpoint_interval']} batches" if goal else ""
        figures.append(figure)
    return figures

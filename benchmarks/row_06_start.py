"""Row 6: start of a trainer to its first new step, against import torch, a raw read of last.pt, and one step."""

import os
import signal
import sys
import time

from benchmarks.harness import Figure, Sample, compare, timed_process
from benchmarks.options import Options
from benchmarks.processes import start, trace, wait_for_steps

CONFIG = {"width": 1024, "batch_size": 16, "records": 16 * 100_000, "epochs": 1, "checkpoint_interval": 0}

FLOOR = """
import torch
from torch import nn
open({last!r}, "rb").read()
torch.set_num_threads(1)
x = torch.randn(16, 64)
w = {width}
model = nn.Sequential(nn.Linear(64, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 1))
optimizer = torch.optim.Adam(model.parameters())
nn.functional.mse_loss(model(x), torch.ones(16, 1)).backward()
optimizer.step()
import os
os._exit(0)
"""


def measure(options: Options) -> list[Figure]:
    """A resume from 13 MB; the data are made in both, so they are small and left out of the floor."""
    folder = options.folder / "start"
    config = {**CONFIG, "records": 16 * 2000}
    process = start(folder, **config)
    wait_for_steps(folder, process, 5)
    process.send_signal(signal.SIGTERM)
    process.wait()
    program = FLOOR.format(last=str(folder / "checkpoints/last.pt"), width=CONFIG["width"])
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def ours() -> Sample:
        before = len(trace(folder))
        began = time.time()
        process = start(folder, **config)
        wait_for_steps(folder, process, before + 2)  # the second step begins when the first is committed
        process.kill()
        process.wait()
        return Sample(trace(folder)[before + 1][1] - began)

    def floor() -> Sample:
        return timed_process([sys.executable, "-c", program], env=environment)[0]

    return [compare(6, "trainer's start to its first new step", 1.15, ours, floor, options.rounds(11, 3))]

"""Row 10: ``unbroken status`` of 10,000 runs against scandir, read and json.loads in one process."""

import os
import shutil
import sys

from benchmarks import planning
from benchmarks.harness import Figure, compare, timed_process
from benchmarks.options import Options

FLOOR = """
import gc, json, os
gc.disable()
found = []
for setting in os.scandir("runs/big"):
    for run in os.scandir(setting.path):
        with open(run.path + "/run_status.json", "rb") as file:
            found.append(json.loads(file.read()))
assert len(found) == {runs}
os._exit(0)
"""


def measure(options: Options) -> list[Figure]:
    """All runs finished, so that nothing but the status files is to be read."""
    runs = 1_000 if options.quick else 10_000
    folder = options.folder / "status"
    planning.finish(folder, planning.make(folder, runs))
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable)}  # no Slurm: the queue is not what is measured
    status = [os.path.join(os.path.dirname(sys.executable), "unbroken"), "status"]
    floor = [sys.executable, "-c", FLOOR.format(runs=runs)]
    options_of = {"cwd": folder / "ours", "env": environment}
    figure = compare(
        10, f"unbroken status, {runs:,} runs", 1.5 if not options.quick else None,
        lambda: timed_process(status, **options_of)[0], lambda: timed_process(floor, **options_of)[0],
        options.rounds(11, 5), note="" if not options.quick else "too few runs for the goal: start-up counts",
    )  # fmt: skip
    shutil.rmtree(folder)
    return [figure]

"""Row 9: ``snakemake -n`` of 10,000 runs against the same DAG in a bare Snakefile; pending, and all finished."""

import shutil
import sys
from pathlib import Path

from benchmarks import planning
from benchmarks.harness import Figure, Sample, compare, median, timed_process
from benchmarks.options import Options

PLAN = [sys.executable, "-m", "snakemake", "-n"]


def measure(options: Options) -> list[Figure]:
    """Time and memory, twice."""
    runs = 1_000 if options.quick else 10_000
    folder = options.folder / "plan"
    collection = planning.make(folder, runs)
    figures = _both(folder, f"{runs:,} runs pending", options)
    planning.finish(folder, collection)
    figures += _both(folder, f"{runs:,} runs finished", options)
    shutil.rmtree(folder)
    return figures


def _both(folder: Path, what: str, options: Options) -> list[Figure]:
    memory: dict[str, list[float]] = {"ours": [], "bare": []}

    def plan(side: str) -> Sample:
        sample, peak = timed_process(PLAN, cwd=folder / side)
        memory[side].append(peak / 1024)
        return sample

    rounds = options.rounds(5, 1)
    time = compare(9, f"snakemake -n, {what}", 1.1, lambda: plan("ours"), lambda: plan("bare"), rounds)
    ours, bare = (median(memory[side]) for side in ("ours", "bare"))
    space = Figure(9, f"its memory, {what}", ours / bare, 1.2, rounds=rounds, parts={"ours_MB": ours, "bare_MB": bare})
    return [time, space]

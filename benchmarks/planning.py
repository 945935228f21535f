"""A project of many runs, and the same work in a bare Snakefile: for rows 9 and 10."""

import json
import os
from pathlib import Path

from benchmarks.processes import ROOT
from unbroken.collection import Collection, load_config

BARE = """import json
TARGETS = json.load(open("targets.json"))
rule all:
    input: TARGETS, "results/big/summary.csv", "results/big/report.html"
rule train:
    output: "runs/{collection}/{setting}/seed_{seed}/result.json"
    message: "Training {wildcards.collection} {wildcards.setting} seed={wildcards.seed}"
    shell: "touch {output}"
rule summarise:
    input: TARGETS
    output: "results/big/summary.csv"
    message: "Summing up"
    shell: "touch {output}"
rule report:
    input: TARGETS
    output: "results/big/report.html"
    message: "Writing the report"
    shell: "touch {output}"
"""


def make(folder: Path, runs: int) -> Collection:
    """``folder``/ours and ``folder``/bare, nothing trained yet."""
    ours, bare = folder / "ours", folder / "bare"
    (ours / "config/collections").mkdir(parents=True)
    bare.mkdir()
    for name in ("Snakefile", "workflow", "profiles", "slurm"):
        (ours / name).symlink_to(ROOT / name)
    settings = runs // 10
    (ours / "config/collections/big.yaml").write_text(
        "command: python train.py --seed {seed}\nconfig: {epochs: 3, optim: {name: adam}}\n"
        f"grid:\n  hidden: {list(range(1, settings // 10 + 1))}\n  optim.lr: {list(range(1, 11))}\nseeds: 10\n"
    )
    (ours / "config/config.yaml").write_text("collections: [big]\n")
    here = os.getcwd()
    os.chdir(ours)
    try:
        collection = load_config(Path("config/config.yaml")).load("big")
    finally:
        os.chdir(here)
    (bare / "Snakefile").write_text(BARE)
    (bare / "profiles").symlink_to(ROOT / "profiles")
    (bare / "targets.json").write_text(json.dumps([str(run.paths("runs").result) for run in collection.runs()]))
    return collection


def finish(folder: Path, collection: Collection) -> None:
    """Let every run be finished, and its summary and report be made."""
    status = {"status": "completed", "attempt": 1, "global_step": 100, "total_steps": 100, "resubmit_count": 0}
    text = json.dumps({"schema_version": 1, **status, "host": "node1", "started_at": "2026-01-01T00:00:00.000Z"})
    for run in collection.runs():
        for side in ("ours", "bare"):
            paths = run.paths(folder / side / "runs")
            paths.root.mkdir(parents=True)
            paths.result.write_text("{}")
            paths.status.write_text(text)
    for side in ("ours", "bare"):
        results = folder / side / "results/big"
        results.mkdir(parents=True)
        for name in ("summary.csv", "report.html"):
            (results / name).write_text("made\n")

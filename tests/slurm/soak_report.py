"""Was the soak survived? Every run against an undisturbed one, and the counts."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.slurm import slow_consensus
from tests.slurm.soak_ledger import fingerprint, gaps, overlaps, replays, started, warned_ends
from tests.workflow.project import ROOT, clean_env


@dataclass
class Report:
    """The counts of one soak."""

    wanted: int
    complete: int = 0
    equal: int = 0
    interruptions: int = 0
    time_limits: int = 0
    while_training: int = 0
    """Of these, between two batches; the others came while a trainer started or a job waited."""
    warned: int = 0
    replayed_after_warning: int = 0
    most_replayed_otherwise: int = 0
    replayed_otherwise: int = 0
    interval: int = 0
    skipped: int = 0
    twice_alive: int = 0
    hangs: int = 0
    did: Counter[str] = field(default_factory=Counter)

    def problems(self) -> list[str]:
        """What must not be, in words; empty when all is well."""
        checks = {
            f"{self.wanted - self.complete} runs are not complete": self.complete != self.wanted,
            f"{self.complete - self.equal} runs differ from the undisturbed ones": self.equal != self.complete,
            f"{self.replayed_after_warning} committed batches replayed after a warning": self.replayed_after_warning,
            f"{self.most_replayed_otherwise} batches replayed at once": self.most_replayed_otherwise > self.interval,
            f"{self.skipped} batches were never done": self.skipped,
            f"{self.twice_alive} times two trainers lived in one run directory": self.twice_alive,
            f"{self.hangs} hangs": self.hangs,
        }
        return [text for text, wrong in checks.items() if wrong]

    def text(self) -> str:
        done = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in sorted(self.did.items()))
        lines = [
            f"runs complete            {self.complete} of {self.wanted}, equal to the undisturbed ones: {self.equal}",
            f"interruptions            {self.interruptions} ({self.while_training} between two batches; "
            f"{self.warned} warned; {self.time_limits} time limits)",
            f"what the driver did      {done}",
            f"committed batches replayed, warned ends      {self.replayed_after_warning}",
            f"committed batches replayed, other ends       {self.replayed_otherwise}, at most "
            f"{self.most_replayed_otherwise} at once (checkpoint interval {self.interval})",
            f"batches skipped          {self.skipped}",
            f"duplicate trainers       {self.twice_alive}",
            f"hangs                    {self.hangs}",
            "WRONG: " + "; ".join(self.problems()) if self.problems() else "all is well",
        ]
        return "\n".join(lines)


def examine(folder: Path, runs: list[Path], wanted: int, interval: int) -> Report:
    """Look at every run directory; trains the undisturbed runs here."""
    report = Report(wanted, interval=interval)
    undisturbed: dict[str, tuple[str, str]] = {}
    for run in runs:
        report.interruptions += max(0, started(run) - 1)
        report.time_limits += _time_limits(run)
        report.twice_alive += overlaps(run)
        report.skipped += gaps(run)
        report.warned += warned_ends(run)
        for warned, batches in replays(run):
            report.while_training += 1
            if warned:
                report.replayed_after_warning += batches
            else:
                report.replayed_otherwise += batches
                report.most_replayed_otherwise = max(report.most_replayed_otherwise, batches)
        if (run / "result.json").exists():
            report.complete += 1
            if run.name not in undisturbed:
                undisturbed[run.name] = _undisturbed(folder / "undisturbed" / run.name, run)
            report.equal += fingerprint(run) == undisturbed[run.name]
    return report


def _time_limits(run: Path) -> int:
    logs = (log.read_text(errors="replace") for log in (run / "logs").glob("attempt_*.log"))
    return sum(len(re.findall(r"^unbroken: .*: preempted: time limit", text, re.MULTILINE)) for text in logs)


def _undisturbed(folder: Path, run: Path) -> tuple[str, str]:
    """Train the same config and seed in a directory of its own, from start to end."""
    folder.mkdir(parents=True)
    environment = {
        **clean_env(),
        "UNBROKEN_RUN_DIR": str(folder),
        "UNBROKEN_CONFIG": str(run / "config.yaml"),
        "UNBROKEN_SEED": run.name.removeprefix("seed_"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    argv = [sys.executable, slow_consensus.__file__]
    subprocess.run(argv, env=environment, check=True, capture_output=True, timeout=300)
    return fingerprint(folder)

"""A fault campaign: twelve runs over all partitions, and a seeded driver that does to them all that a cluster does.

    python -m tests.slurm.soak --minutes 10 [--seed 1]

At the end every run must be complete and equal, bit for bit, to one that nobody disturbed; no batch that a warned
trainer had committed may have been done again, no two trainers may have lived in one run directory, nothing may hang.
The exit code says so.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.slurm import slow_consensus
from tests.slurm.cluster import Cluster
from tests.slurm.soak_ledger import pids_of
from tests.slurm.soak_report import Report, examine
from tests.slurm.workflow import SlurmProject
from tests.workflow.project import status_of

PARTITIONS = ("grace", "nograce", "cancel", "short")
SEEDS = 3
BATCHES = 96
INTERVAL = 10
"""Effective batches between periodic saves: the most that an unwarned end may cost."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(__file__).parents[2]),
    # A controller that is killed may call a job running that has ended, until its time limit.
    "UNBROKEN_SILENCE_SECONDS": "60",
}
QUIET_S = 180.0
"""When nothing disturbs any more and nothing has moved for so long, Snakemake hangs."""
MOST_CALLS = 6
COLLECTION = {
    "command": f"{sys.executable} {slow_consensus.__file__} --config {{config}} --run-dir {{run_dir}}",
    "data": {"source": "synthetic_river", "basins": 2, "days": 730, "seed": 7},
    "config": {"epochs": 6, "batch_size": 64, "lr": 0.001, "hidden": 16},
    "seeds": SEEDS,
    "operational": {"checkpoint_interval": INTERVAL, "no_progress_limit": 20, "max_resubmit_attempts": 500},
}


class Soak(SlurmProject):
    """The project, and the driver."""

    def __init__(self, folder: Path, cluster: Cluster, minutes: float, seed: int) -> None:
        super().__init__(folder, cluster)
        self.random = random.Random(seed)
        self.seconds = minutes * 60
        self.did: Counter[str] = Counter()
        self.twice_alive: Counter[Path] = Counter()
        self.lost_node: str | None = None
        self.lost_at = 0.0
        for partition in PARTITIONS:
            # In `short` every job is warned of its limit half a minute to a minute after its start.
            limit, warning = (2, 60) if partition == "short" else (30, 30)
            resources = {"slurm_partition": partition, "mem_mb": 1500, "runtime": limit}
            resources["slurm_extra"] = f"--signal=USR1@{warning}"
            self.add(f"soak-{partition}", resources=resources, **COLLECTION)
        # Undisturbed, a run lasts half of the time; removed, it ends at once.
        (folder / slow_consensus.PACE).write_text(str(0.5 * self.seconds / BATCHES))

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **ENVIRONMENT}

    def say(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    # --- what can happen ----------------------------------------------------------------------------------------

    def preempt(self) -> bool:
        node = self.random.choice([node for node in self.cluster.nodes if node != self.lost_node])
        self.cluster.preempt(node)
        return True

    def kill_trainer(self) -> bool:
        """One that has committed something, so that there is something to lose."""
        busy = [pid for run, pids in self.trainers().items() for pid in pids if str(pid) in pids_of(run)]
        return bool(busy) and _kill(self.random.choice(sorted(busy)))

    def kill_launcher(self) -> bool:
        busy = [run for run, pids in self.trainers().items() if any(str(pid) in pids_of(run) for pid in pids)]
        pids = [status_of(run).get("pid") for run in busy]
        pids = [pid for pid in pids if pid and "unbroken.launch" in " ".join(_argv(pid))]
        return bool(pids) and _kill(self.random.choice(sorted(pids)))

    def cancel(self) -> bool:
        """A person cancels a run's job; the next call of Snakemake submits it again."""
        running = [run for run in self.all_runs() if status_of(run).get("status") == "running"]
        if not running:
            return False
        self.cluster.cancel(status_of(self.random.choice(running))["slurm_job_id"])
        return True

    def lose_node(self) -> bool:
        self.lost_node, self.lost_at = self.cluster.nodes[-1], time.monotonic()
        self.cluster.kill_slurmd(self.lost_node, jobs=True)
        return True

    def return_node(self, now: bool = False) -> None:
        """Give the node back once Slurm has noticed that it was gone."""
        node = self.lost_node
        if node and (now or "down" in self.cluster.node_state(node) or time.monotonic() > self.lost_at + 90):
            self.cluster.launch_slurmd(node)
            self.cluster.wait_slurmd(node)
            self.lost_node = None
            self.say(f"node back after {time.monotonic() - self.lost_at:.0f} s")

    def resume_nodes(self) -> None:
        """A killed controller forgets jobs and gives their numbers again; a node that still has one drains itself."""
        if self.did["restart_controller"] and (drained := self.cluster.resume_drained()):
            self.say(f"resumed {', '.join(drained)}")

    def restart_controller(self) -> bool:
        self.cluster.restart_slurmctld(self.random.choice([signal.SIGTERM, signal.SIGKILL]))
        return True

    def kill_snakemake(self) -> bool:
        os.killpg(self.processes[-1].pid, signal.SIGKILL)
        self.processes[-1].wait()
        self.call_again()
        return True

    # --- the driver ---------------------------------------------------------------------------------------------

    def call_again(self) -> None:
        self.snakemake("--unlock", env=self.environment())
        self.begin("--quiet", "rules")

    def all_runs(self) -> list[Path]:
        return [run for slug in self.slugs for run in self.runs(slug)]

    def complete(self) -> bool:
        return sum((run / "result.json").exists() for run in self.all_runs()) == len(PARTITIONS) * SEEDS

    def trainers(self) -> dict[Path, set[int]]:
        """The living trainers by run directory."""
        found: dict[Path, set[int]] = {}
        for name in os.listdir("/proc"):
            argv = _argv(int(name)) if name.isdigit() else []
            if len(argv) > 2 and argv[1] == slow_consensus.__file__ and str(self.folder) in argv[-1]:
                found.setdefault(Path(argv[-1]), set()).add(int(name))
        return found

    def disturb(self) -> None:
        """Until the time is up: what comes once at its time, everything else at random."""
        wanted = len(PARTITIONS) * SEEDS // 2
        self.await_(lambda: sum(bool(pids_of(run)) for run in self.all_runs()) >= wanted, "half of the runs to train")
        begin, total = time.monotonic(), self.seconds
        once: list[tuple[float, Callable[[], bool]]] = [
            (0.15, self.lose_node),
            (0.3, self.cancel),
            (0.5, self.kill_snakemake),
            (0.75, self.restart_controller),
            (0.9, self.restart_controller),
        ]
        often = [self.preempt] * 3 + [self.kill_trainer] * 2 + [self.kill_launcher] * 2
        due = begin
        while (now := time.monotonic()) < begin + total and not self.complete():
            for run, pids in self.trainers().items():
                self.twice_alive[run] += len(pids) > 1
            if once and now >= begin + once[0][0] * total:
                _, action = once.pop(0)
            elif now >= due:
                action, due = self.random.choice(often), now + self.random.uniform(4, 10)
            else:
                time.sleep(0.3)
                self.return_node()
                self.resume_nodes()
                continue
            if action():
                self.did[action.__name__] += 1
                self.say(action.__name__.replace("_", " "))

    def ends(self) -> bool:
        """Wait for Snakemake; False when nothing has moved for QUIET_S: no line, no event, no batch."""
        before, since = -1, time.monotonic()
        while self.processes[-1].poll() is None:
            self.resume_nodes()
            files = [self.folder / "snakemake.log", *self.folder.glob("runs/*/*/*/*.*l*")]
            if (now := sum(file.stat().st_size for file in files if file.is_file())) != before:
                before, since = now, time.monotonic()
            if time.monotonic() > since + QUIET_S:
                return False
            time.sleep(0.5)
        return True

    def bring_to_its_end(self) -> int:
        """Undisturbed now; as a person does, call Snakemake again while a run is missing. Returns the hangs."""
        self.return_node(now=True)
        (self.folder / slow_consensus.PACE).unlink()
        for _ in range(MOST_CALLS):
            if not self.ends():
                self.say(f"Snakemake hangs:\n{self.cluster.run(['squeue', '-a']).stdout}{self.log()[-3000:]}")
                return 1
            if self.complete():
                return 0
            self.say("calling snakemake again for what is missing")
            self.call_again()
        return 0


def _argv(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except (OSError, UnicodeDecodeError):
        return []


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def soak(folder: Path, cluster: Cluster, minutes: float, seed: int) -> Report:
    """One campaign on a running cluster."""
    driver = Soak(folder, cluster, minutes, seed)
    try:
        driver.begin("--quiet", "rules")
        driver.disturb()
        hangs = driver.bring_to_its_end()
        report = examine(folder, driver.all_runs(), len(PARTITIONS) * SEEDS, INTERVAL)
        report.hangs, report.did = hangs, driver.did
        report.twice_alive += sum(driver.twice_alive.values())
        if report.problems():
            driver.say(driver.log()[-6000:])
        return report
    finally:
        driver.close()
        if driver.lost_node:
            cluster.launch_slurmd(driver.lost_node)
        cluster.resume_drained()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.slurm.soak", description="A fault campaign on the cluster.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, Cluster() as cluster:
        report = soak(Path(folder), cluster, given.minutes, given.seed)
    print(report.text())
    return 1 if report.problems() else 0


if __name__ == "__main__":
    sys.exit(main())

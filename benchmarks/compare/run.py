"""Train the runs under each system, preempt each once by a seeded schedule, and count what it cost."""

import random
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.slurm.cluster import Cluster

from benchmarks.compare.systems import GRACE_S, PARTITION, SYSTEMS, System
from benchmarks.compare.task import PACE_S, SAVE_EVERY, STEPS
from benchmarks.harness import median
from benchmarks.processes import trace

RUNS, ALONE, SEED = 12, 4, 7
LONGEST_S = 900.0


def measure(folder: Path) -> dict[str, Any]:
    """One cluster, one system after the other: first runs that nobody disturbs, then the collection."""
    generator = random.Random(SEED)
    schedule = {seed: generator.randrange(40, STEPS - 60) for seed in range(RUNS)}
    results, notes = {}, []
    grace = {PARTITION: f"PriorityTier=10 PreemptMode=REQUEUE GraceTime={GRACE_S} DefaultTime=60"}
    with Cluster(options=_warned_at_preemption(), partitions=grace) as cluster:
        for kind in SYSTEMS:
            print(f"{kind.name} ...", flush=True)
            alone = _train(kind(folder / f"{kind.__name__}_alone", cluster), {seed: None for seed in range(ALONE)})
            whole = _train(kind(folder / kind.__name__, cluster), dict(schedule))
            results[kind.name], said = _judge(alone, whole)
            notes += [f"{kind.name}: {text}" for text in said]
    about = (
        f"{RUNS} runs of {STEPS} steps of {1e3 * PACE_S:.0f} ms, a periodic save every {SAVE_EVERY} steps, four nodes, "
        f"each run preempted once at a step drawn with seed {SEED} (GraceTime {GRACE_S} s, "
        "send_user_signal on, without which submitit and Lightning are not warned; a requeue waits "
        f"9 s here, 121 s by default). Allocated time is Slurm's own, in whole seconds, over {RUNS} runs: "
        "times that differ by a second are equal."
    )
    return {"systems": results, "notes": notes, "about": about}


def _warned_at_preemption() -> dict[str, str]:
    """Slurm's switch for sending the job's own warning signal at a preemption; it moved in 23.02."""
    version = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True).stdout.split()[-1]
    if tuple(int(part) for part in version.split(".")[:2]) < (23, 2):
        return {"SlurmctldParameters": "preempt_send_user_signal"}
    return {"PreemptParameters": "send_user_signal"}


def _train(system: System, schedule: dict[int, int | None]) -> dict[str, Any]:
    """Submit, preempt each run at its step, wait for all."""
    waiting = {seed: step for seed, step in schedule.items() if step is not None}
    began = time.monotonic()
    system.submit(list(schedule))
    try:
        while not all(system.done(seed) for seed in schedule) and time.monotonic() - began < LONGEST_S:
            for seed, step in list(waiting.items()):
                run, job = system.run(seed), system.job(seed)
                done = trace(run) if run else []
                if job and done and done[-1][0] >= step:
                    system.cluster.preempt(job)
                    del waiting[seed]
            time.sleep(0.2)
        wall = time.monotonic() - began
        finished = [seed for seed in schedule if system.done(seed)]
        time.sleep(3)  # accounting
        return {
            "wall": wall,
            "finished": finished,
            "weights": {seed: system.weights(seed) for seed in finished},
            "traces": {seed: trace(run) for seed in schedule if (run := system.run(seed))},
            "allocated": {seed: _allocated(system, seed) for seed in schedule},
            "schedule": schedule,
            "runs": len(schedule),
        }
    finally:
        system.close()


def _allocated(system: System, seed: int) -> list[float]:
    """Seconds that Slurm gave to the run, one number a start of its job."""
    job = system.job(seed)
    if job is None:
        return []
    said = system.cluster.run(["sacct", "-D", "-X", "-n", "-P", "-j", job, "-o", "ElapsedRaw"])
    return [float(line) for line in said.stdout.split()]


def _judge(alone: dict[str, Any], whole: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The row of a system."""
    undisturbed = median(sum(times) for times in alone["allocated"].values())
    starts = {seed: times for seed, times in whole["allocated"].items() if seed in whole["finished"]}
    lost = [(sum(times) - undisturbed) / (len(times) - 1) for times in starts.values() if len(times) > 1]
    replayed = [len(steps) - STEPS for steps in whole["traces"].values()]
    gaps = [(steps[-1][1] - steps[0][1]) / (len(steps) - 1) for steps in alone["traces"].values() if len(steps) > 1]
    same = [whole["weights"].get(seed) == alone["weights"].get(seed) for seed in alone["finished"]]
    row = {
        "time lost per interruption, s": median(lost) if lost else float("nan"),
        "starts of a run, mean": sum(len(times) for times in starts.values()) / max(len(starts), 1),
        "batches replayed, mean": sum(replayed) / max(len(replayed), 1),
        "overhead of an undisturbed run": median(gaps) / PACE_S if gaps else float("nan"),
        "allocated time of an undisturbed run, s": undisturbed,
        "wall time of the collection, s": whole["wall"],
        "finished": f"{len(whole['finished'])} of {whole['runs']}",
        "same bits as undisturbed": f"{sum(same)} of {len(same)}",
    }
    notes = []
    if len(whole["finished"]) < whole["runs"]:
        notes.append(f"{whole['runs'] - len(whole['finished'])} runs had not finished after {LONGEST_S:.0f} s")
    return row, notes

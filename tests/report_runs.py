"""Synthetic collections and run directories for the tests of the report: what a training would have left behind."""

import csv
import json
import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unbroken.collection import Collection, Run, RunPaths, load_collection

START = datetime(2026, 5, 4, 20, 0, tzinfo=UTC).timestamp()


def collection_of(folder: Path, slug: str = "rivers", **changes: Any) -> Collection:
    """A collection file written and loaded; JSON is YAML."""
    data: dict[str, Any] = {
        "trainer": "consensus",
        "description": "Three settings of a small network.",
        "config": {"epochs": 4},
        "grid": {"hidden": [16, 32, 64]},
        "seeds": 3,
    }
    data |= changes
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slug}.yaml"
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return load_collection(path)


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Story:
    """Writes one run directory, event by event, on a clock of its own."""

    run: Run
    runs_dir: Path
    clock: float = START
    step: int = 0
    total: int = 400
    job: str | None = None
    attempt: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def paths(self) -> RunPaths:
        return self.run.paths(self.runs_dir)

    def event(self, name: str, **details: Any) -> None:
        self.events.append({"time": stamp(self.clock), "event": name, "attempt": self.attempt, **details})

    def wait(self, seconds: float) -> "Story":
        self.clock += seconds
        return self

    def begin(self) -> "Story":
        self.attempt += 1
        self.event("run_started", slurm_job_id=self.job, argv=["python", "-m", "trainer"])
        if self.step:
            self.clock += 40
            self.event("resumed", global_step=self.step, start_epoch=1)
        self._status("running", f"attempt {self.attempt}")
        return self

    def train(self, steps: int, save_every: int = 40, seconds_per_step: float = 6.0, save_s: float = 20.0) -> "Story":
        """Train, saving as it goes; what is after the last save is not committed."""
        for offset in range(1, steps + 1):
            self.clock += seconds_per_step
            if (self.step + offset) % save_every == 0:
                self._save(self.step + offset, save_s)
        self.step = self.committed
        return self

    committed: int = 0

    def _save(self, step: int, save_s: float) -> None:
        self.clock += save_s
        self.committed = step
        self.event("checkpoint_saved", global_step=step, bytes=1_200_000, seconds=save_s)

    def preempt(self, at: int | None = None, signal: str = "SIGTERM") -> "Story":
        self._save(at or self.step, 20.0)
        self.step = self.committed
        self.event("graceful_shutdown", signal=signal, global_step=self.step, saved=True)
        self.clock += 2
        if self.job:
            self.event("requeued", slurm_job_id=self.job)
        reason = f"preempted by Slurm ({signal}); state saved"
        return self._status("preempted", reason, last_signal=signal, resubmit_count=self.attempt)

    def crash(self, reason: str = "crashed with exit code 1: NaN", failure: str = "crash") -> "Story":
        self.event("run_failed", reason=reason)
        return self._status("failed", reason, failure=failure, exit_code=1)

    def vanish(self) -> "Story":
        """The node is lost: nobody writes anything."""
        self._status("running", None)
        return self

    def finish(self, **result: Any) -> "Story":
        self.event("run_completed", reason="finished")
        self._status("completed", "finished", exit_code=0)
        self.step = self.total
        shape = {"schema_version": 1, "seed": self.run.seed, "trainer": "consensus", "steps": self.total}
        self._write("result.json", json.dumps({**shape, **result}))
        return self

    def _status(self, state: str, reason: str | None, **more: Any) -> "Story":
        self.status |= {
            "schema_version": 1, "status": state, "reason": reason, "attempt": self.attempt, "global_step": self.step,
            "total_steps": self.total, "slurm_job_id": self.job, "mem_mb_asked": 4000, "mem_mb_used": 1430,
            "started_at": stamp(START), "updated_at": stamp(self.clock), **more,
        }  # fmt: skip
        return self

    def _write(self, name: str, content: str) -> None:
        path = self.paths.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def write(self, log: str = "2026-05-04 20:00:00+00:00 step 10/400 loss 0.9\n", metrics: bool = True) -> None:
        """Everything but the result onto the disk."""
        self._write("events.jsonl", "".join(json.dumps(event) + "\n" for event in self.events))
        self._write("run_status.json", json.dumps(self.status))
        for number in range(1, self.attempt + 1):
            self._write(f"logs/attempt_{number}.log", log)
        if metrics:
            write_metrics(self.paths.metrics, loss_curve(self.run, self.step or 10))


def loss_curve(run: Run, steps: int) -> list[float]:
    """A curve as trainings have them."""
    noise = random.Random(f"{run.setting}{run.seed}")
    hidden = run.point.config.get("hidden", 16)
    size = hidden if isinstance(hidden, int) else 16
    return [
        2.4 * math.exp(-step / (60 + size)) + 3 / (size + step / 8) + noise.gauss(0, 0.02 + 0.1 * math.exp(-step / 80))
        for step in range(1, steps + 1)
    ]


def write_metrics(path: Path, losses: Sequence[float], columns: Sequence[str] = ("test_nse",)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "epoch", "lr", "loss", *columns])
        empty = [""] * len(columns)
        writer.writerows([step, step // 100, 0.001, repr(loss), *empty] for step, loss in enumerate(losses, 1))


def result_of(run: Run) -> dict[str, Any]:
    """Measures that depend on setting and seed."""
    noise = random.Random(f"r{run.setting}{run.seed}")
    good = 0.55 + 0.08 * math.log2(run.point.config.get("hidden", 16) / 8)
    return {
        "metrics": {
            "train_loss": 0.21 - good / 10 + noise.gauss(0, 0.004),
            "skill": {name: {"nse": good - lack + noise.gauss(0, 0.012), "kge": good - lack / 2 + noise.gauss(0, 0.01)}
                      for name, lack in (("consensus", 0.0), ("daymet", 0.13), ("maurer", 0.21))},
        },
        "weights_sha256": f"{noise.getrandbits(256):064x}",
    }  # fmt: skip


def eventful(folder: Path, slug: str = "rivers") -> tuple[Collection, Path]:
    """Nine runs with every kind of end; returns the collection and its runs folder."""
    runs = folder / "runs"
    collection = collection_of(folder, slug, resources={"runtime": 60, "mem_mb": 4000, "gres": "gpu:1"})
    for index, run in enumerate(collection.runs()):
        story = Story(run, runs, clock=START + 60 * index, job=str(4100 + index))
        if index == 8:
            continue  # pending
        story.begin()
        if index in (1, 4):
            story.train(170).preempt(170).wait(121).begin().train(230).finish(**result_of(run))
        elif index == 2:
            story.train(130).preempt(130).wait(1300).begin().train(60).preempt(190, "SIGUSR1").wait(180).begin()
            story.train(210).finish(**result_of(run))
        elif index == 3:
            story.train(150).vanish().wait(700).begin().train(280).finish(**result_of(run))
        elif index == 5:
            story.train(95).crash().wait(40_000)
            story.job = "4120"
            story.begin().train(320).finish(**result_of(run))
        elif index == 6:
            story.train(110).crash("out of memory (signal 9); the next attempt asks for more", "out_of_memory")
        elif index == 7:
            story.train(90).preempt(90)
        else:
            story.train(400).finish(**result_of(run))
        story.write()
        set_log_times(story)
    return collection, runs


def set_log_times(story: Story) -> None:
    """Logs as old as their attempts."""
    last: dict[int, float] = {}
    for event in story.events:
        last[event["attempt"]] = datetime.fromisoformat(event["time"]).timestamp()
    for number, seconds in last.items():
        os.utime(story.paths.attempt_log(number), (seconds + 180, seconds + 180))

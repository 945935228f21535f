"""How each system is told to train the runs, and where its jobs and traces are."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.slurm.cluster import Cluster
from tests.slurm.workflow import SlurmProject, status_of

from benchmarks.compare import lightning_loop, plain_loop, submitit_loop
from benchmarks.compare.task import BATCH, PACE_S, SAVE_EVERY, STEPS, WIDTH
from benchmarks.processes import ROOT

PARTITION, CPUS, SIGNAL_S, GRACE_S = "grace", 8, 60, 5
"""One job a node; a grace time well below a run's length; the warning signal is also sent at a preemption."""


class System:
    """One way of training the runs; ``folder`` is its own."""

    name = ""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.jobs: dict[int, str] = {}
        folder.mkdir(parents=True)

    def submit(self, seeds: list[int]) -> None:
        raise NotImplementedError

    def run(self, seed: int) -> Path | None:
        """The folder of a run, once it is there."""
        return self.folder / f"seed_{seed}"

    def job(self, seed: int) -> str | None:
        return self.jobs.get(seed)

    def done(self, seed: int) -> bool:
        run = self.run(seed)
        return run is not None and (run / "weights.txt").exists()

    def weights(self, seed: int) -> str:
        run = self.run(seed)
        return (run / "weights.txt").read_text() if run else ""

    def close(self) -> None:
        for job in self.jobs.values():
            self.cluster.run(["scancel", job], check=False)


class Scripts(System):
    """One sbatch script a run."""

    script = ""
    options: tuple[str, ...] = ()

    def submit(self, seeds: list[int]) -> None:
        for seed in seeds:
            script = self.folder / f"run_{seed}.sh"
            script.write_text(self.script.format(python=sys.executable, folder=self.run(seed), seed=seed))
            asked = ["-p", PARTITION, f"--cpus-per-task={CPUS}", "--mem=2000", "--requeue", "--open-mode=append"]
            out = ["-o", str(self.folder / f"run_{seed}.log"), "--chdir", str(ROOT)]
            said = self.cluster.run(["sbatch", "--parsable", *asked, *self.options, *out, str(script)])
            self.jobs[seed] = said.stdout.strip()


class PlainLoop(Scripts):
    name, script = "torch.save loop, own sbatch", plain_loop.SCRIPT


class Lightning(Scripts):
    name, script = "Lightning, SLURM auto-requeue", lightning_loop.SCRIPT
    options = (f"--signal=USR1@{SIGNAL_S}",)


class Submitit(System):
    name = "submitit, checkpointable"

    def submit(self, seeds: list[int]) -> None:
        import submitit

        before = dict(os.environ)
        os.environ.update(self.cluster.env, SUBMITIT_PREEMPT_SIGNAL="USR2", PYTHONPATH=str(ROOT))
        try:
            executor: Any = submitit.AutoExecutor(folder=self.folder / "logs", cluster="slurm")
            executor.update_parameters(
                slurm_partition=PARTITION, cpus_per_task=CPUS, mem_gb=2, timeout_min=30,
                slurm_signal_delay_s=SIGNAL_S, slurm_additional_parameters={"requeue": True},
            )  # fmt: skip
            for seed in seeds:
                job = executor.submit(submitit_loop.Training(self.folder / f"seed_{seed}", seed))
                self.jobs[seed] = str(job.job_id)
        finally:
            os.environ.clear()
            os.environ.update(before)


class Ours(System):
    name = "Unbroken"

    def submit(self, seeds: list[int]) -> None:
        self.project = SlurmProject(self.folder / "project", self.cluster)
        program = f"env PYTHONPATH={ROOT} {sys.executable} -m benchmarks.trainer"
        self.project.add(
            "compared",
            command=f"{program} --config {{config}} --run-dir {{run_dir}}",
            config={
                "width": WIDTH, "batch_size": BATCH, "records": BATCH * STEPS, "epochs": 1, "pace_s": PACE_S,
                "dropout": 0.1,
            },
            seeds=seeds,
            operational={"checkpoint_interval": SAVE_EVERY},
            resources={
                "slurm_partition": PARTITION, "cpus_per_task": CPUS, "mem_mb": 2000, "runtime": 30,
                "slurm_extra": f"--signal=USR1@{SIGNAL_S}",
            },
        )  # fmt: skip
        self.snakemake: subprocess.Popen[str] = self.project.begin()

    def run(self, seed: int) -> Path | None:
        return next((self.project.folder / "runs").glob(f"compared/*/seed_{seed}"), None)

    def job(self, seed: int) -> str | None:
        run = self.run(seed)
        return status_of(run).get("slurm_job_id") if run else None

    def done(self, seed: int) -> bool:
        run = self.run(seed)
        return run is not None and (run / "result.json").exists()

    def weights(self, seed: int) -> str:
        import json

        run = self.run(seed)
        return str(json.loads((run / "result.json").read_text())["weights_sha256"]) if run else ""

    def close(self) -> None:
        self.project.close()


SYSTEMS: tuple[type[System], ...] = (Ours, Submitit, Lightning, PlainLoop)

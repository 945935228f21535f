"""Runs started by launchers in plain sbatch jobs, each to end in its own way: what `why` is tested on."""

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.slurm.cluster import Cluster
from tests.workflow.project import ROOT, Project, wait_for
from unbroken.collection import Run, load_collection
from unbroken.run_dir.status import read_status


@dataclass
class Case:
    """One run of its own collection."""

    run: Run
    root: Path
    jobs: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.run.collection}/{self.run.setting}/{self.run.seed}"

    @property
    def status(self) -> str:
        return read_status(self.run.paths(self.root.parents[2])).status


class Ends:
    """A project on the cluster; its runs are submitted without Snakemake, so that each end comes quickly."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.project = Project(folder)
        self.folder = folder
        self.cluster = cluster
        self.cases: dict[str, Case] = {}
        self.quiet_node = ""
        """Where nothing is preempted and nothing breaks: for every job that names no node."""
        self.hard = ""
        """A bare job that hits its time limit."""
        self.early: dict[str, Any] = {}
        """The verdict on the requeued run while it waited."""

    def add(self, slug: str, config: dict[str, Any], **keys: Any) -> Case:
        """A collection with one run."""
        self.project.add(slug, config={"steps": 3, **config}, **keys)
        run = next(load_collection(self.folder / "config" / "collections" / f"{slug}.yaml").runs())
        case = Case(run, run.paths(self.folder / "runs").root)
        case.root.mkdir(parents=True)
        (self.folder / f"{slug}.json").write_text(json.dumps(run.launch_spec()))
        self.cases[slug] = case
        return case

    def submit(self, slug: str, *options: str, partition: str = "normal", memory: str = "500M") -> str:
        """One job that launches the run, as the training rule does: srun, then the launcher."""
        case = self.cases[slug]
        launcher = [sys.executable, "-m", "unbroken.launch", "--run-dir", str(case.root)]
        script = f"exec srun -n1 {shlex.join([*launcher, '--spec', f'@{self.folder / slug}.json'])}"
        comment = f"rule_train_{slug}_wildcards_{slug}_{case.run.setting}_{case.run.seed}"
        given = [f"--comment={comment}", f"--job-name={slug}", f"--mem={memory}", *options]
        environment = {"PYTHONPATH": str(ROOT / "src")}
        if not any(option.startswith("--nodelist") for option in options):
            given.append(f"--nodelist={self.quiet_node}")
        job = self.cluster.sbatch(script, *given, partition=partition, env=environment, cwd=self.folder)
        case.jobs.append(job)
        return job

    def holds(self, slug: str) -> None:
        """Wait until the toy holds at its step."""
        wait_for((self.cases[slug].root / "holding").exists, f"{slug} to hold")

    def cli(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`unbroken ...` in the project."""
        argv = [sys.executable, "-m", "unbroken.cli", *words]
        done = self.cluster.run(argv, check=False, cwd=self.folder, env={"PYTHONPATH": str(ROOT / "src")})
        assert not check or done.returncode == 0, done.stderr
        return done

    def why(self, what: str) -> dict[str, Any]:
        """`unbroken why WHAT --json`."""
        verdict: dict[str, Any] = json.loads(self.cli("why", what, "--json").stdout)
        return verdict

    def settled(self, job: str) -> None:
        """Wait until the job has ended, in the controller and in accounting."""
        self.cluster.wait_state(job, FINAL)
        wait_for(lambda: self.cluster.sacct(job)[0]["State"].split()[0] in FINAL, f"accounting of {job}")


FINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY"}

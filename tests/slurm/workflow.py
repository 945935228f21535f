"""What the workflow tests on the cluster share: a project whose Snakemake talks to the test cluster."""

import subprocess
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.workflow.project import WAIT_S, Project, clean_env


class SlurmProject(Project):
    """Snakemake under --profile slurm, polling every second."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        self.cluster = cluster

    def argv(self, *arguments: str) -> list[str]:
        return super().argv("--profile", "slurm", "--seconds-between-status-checks", "1", *arguments)

    def environment(self) -> dict[str, str]:
        return {**clean_env(), **self.cluster.env}

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start(*arguments, env=self.environment())

    def finish(self, process: subprocess.Popen[str], timeout: float = WAIT_S) -> int:
        """Snakemake's exit code; a hang fails with its output."""
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            queue = self.cluster.run(["squeue", "-a"]).stdout
            raise AssertionError(f"Snakemake hangs:\n{self.log()}\n{queue}") from None

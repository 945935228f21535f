"""RunPaths: every file name of a run directory, once."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunPaths:
    """The files of one run directory, ``<runs>/<collection>/<setting>/seed_<seed>``."""

    root: Path

    @classmethod
    def of(cls, runs: Path | str, collection: str, setting: str, seed: int) -> "RunPaths":
        return cls(Path(runs) / collection / setting / f"seed_{seed}")

    @property
    def config(self) -> Path:
        """The run config, all keys, for the trainer and for a reader."""
        return self.root / "config.yaml"

    @property
    def identity(self) -> Path:
        """Which setting and seed this directory belongs to; written once."""
        return self.root / "config_identity.json"

    @property
    def status(self) -> Path:
        """Mutable control state, replaced atomically."""
        return self.root / "run_status.json"

    @property
    def status_spare(self) -> Path:
        """Room for the next run_status.json during an attempt, taken before the disk can be full."""
        return self.root / ".run_status.spare"

    @property
    def events(self) -> Path:
        """Append-only history, one JSON object a line."""
        return self.root / "events.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def last(self) -> Path:
        return self.checkpoints / "last.pt"

    @property
    def previous(self) -> Path:
        return self.checkpoints / "previous.pt"

    @property
    def metrics(self) -> Path:
        """One row a logged step, no step twice."""
        return self.root / "metrics.csv"

    @property
    def result(self) -> Path:
        """The only output Snakemake knows of; a function of the run config alone."""
        return self.root / "result.json"

    @property
    def kept_result(self) -> Path:
        """The launcher's copy of result.json, which Snakemake deletes before it starts a job of the run again."""
        return self.root / ".result.json"

    @property
    def wandb_id(self) -> Path:
        return self.root / "wandb_run_id.txt"

    @property
    def wandb_step(self) -> Path:
        """That id and the last step it was told, so that a resume tells none twice."""
        return self.root / "wandb_step.txt"

    @property
    def profile(self) -> Path:
        """Traces and tables of torch.profiler."""
        return self.root / "profile"

    @property
    def leases(self) -> Path:
        """Numbered leases; the highest number tells who may train here."""
        return self.root / "lease"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def attempt_log(self, attempt: int) -> Path:
        """Stdout and stderr of one attempt."""
        return self.logs / f"attempt_{attempt}.log"

    @staticmethod
    def sidecar(checkpoint: Path) -> Path:
        """The readable JSON beside a checkpoint: last.pt -> last.json."""
        return checkpoint.with_suffix(".json")

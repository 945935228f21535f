"""The loop as a checkpointable callable of submitit."""

from pathlib import Path
from typing import Any

from benchmarks.compare.task import Loop


class Training:
    """submitit calls ``checkpoint`` in its signal handler and starts the returned callable again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.loop: Loop | None = None

    def __call__(self) -> None:
        self.loop = Loop(self.folder, self.seed)
        self.loop.train()

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission

        if self.loop is not None:
            self.loop.save()
        return DelayedSubmission(Training(self.folder, self.seed))

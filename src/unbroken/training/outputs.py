"""What an attempt shows while it trains: metrics.csv, the bar, a tracker, a profile. On rank 0; elsewhere nothing."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from unbroken.collection.run_dir import RunPaths
from unbroken.training import profiling, tracking
from unbroken.training.metrics import MetricsFile
from unbroken.training.progress import Progress, say
from unbroken.training.records import Records
from unbroken.training.resume import Resumed


class Outputs:
    """Closed outputs take everything and do nothing."""

    def __init__(self) -> None:
        self._metrics: MetricsFile | None = None
        self._tracker: tracking.Tracker = tracking.OFF
        self._profiler: profiling.Profiler | None = None
        self._progress = Progress(0, 0, quiet=True)
        self._records: Records | None = None
        self._told = False

    def open(
        self,
        paths: RunPaths,
        records: Records,
        columns: Sequence[str],
        resumed: Resumed,
        total_steps: int,
        options: Mapping[str, Any],
        config: Mapping[str, Any],
        device: torch.device,
    ) -> None:
        """Cut metrics.csv back to the checkpoint, start what the operational keys ask for.

        Raises:
            RunDirectoryError: metrics.csv is another run's.
        """
        self._records = records
        self._metrics = MetricsFile(paths.metrics, columns)
        self._metrics.open(resumed.global_step, resumed.metrics_bytes, resumed.pending_row is not None)
        if self._metrics.lost:
            records.event("metrics_rows_lost", bytes=self._metrics.lost)
            say(
                f"{paths.metrics} has lost {self._metrics.lost} bytes that it had when the checkpoint was saved: rows "
                "are missing in it, the training itself is not affected"
            )
        self._tracker = tracking.start(options["tracking"], paths, config)
        self._profiler = profiling.start(options["profiling"], paths, device)
        self._progress = Progress(total_steps, resumed.global_step)

    @property
    def metrics_bytes(self) -> int | None:
        """Length of metrics.csv; goes into the checkpoint."""
        return self._metrics.size if self._metrics is not None else None

    def step(self) -> None:
        """One effective batch is over."""
        if self._profiler is not None:
            self._profiler.step()

    def row(self, row: Mapping[str, Any], force_progress: bool) -> None:
        """One row of metrics.csv."""
        if self._metrics is not None:
            self._metrics.row(row)
        self._check_loss(row.get("loss"), row["step"])
        self._tracker.log(row)
        self._progress.show(row["step"], row.get("epoch", 0), row.get("loss"), force=force_progress)

    def _check_loss(self, loss: Any, step: int) -> None:
        """Tell once an attempt that training has diverged: such a run goes on to its end and counts as finished."""
        if self._told or self._records is None or not isinstance(loss, float) or math.isfinite(loss):
            return
        self._told = True
        say(f"the loss is {loss} at step {step}: the training goes on; no later step is likely to bring it back")
        self._records.event("loss_not_finite", global_step=step, loss=str(loss))

    def sync(self) -> None:
        """Wait until the disk has metrics.csv; before a checkpoint that counts on it."""
        if self._metrics is not None:
            self._metrics.sync()

    def finish(self, preempted: bool) -> None:
        """The attempt ends as it should."""
        self._progress.done()
        self._tracker.finish(preempted)

    def close(self) -> None:
        """However the attempt ends."""
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

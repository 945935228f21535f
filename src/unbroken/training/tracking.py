"""An experiment tracker (Weights & Biases) that goes on in the same run; never delays training. Off by default.

Every call may fail for reasons that have nothing to do with the training: the first failure is said, then it is off.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.files import write_atomic
from unbroken.training.progress import say


class Tracker:
    """A tracker that does nothing."""

    def log(self, row: Mapping[str, Any]) -> None:
        """One row of metrics.csv."""

    def finish(self, preempted: bool) -> None:
        """The attempt is over."""


OFF = Tracker()


class Wandb(Tracker):
    """Weights & Biases: the id in wandb_run_id.txt is reused, steps grow monotonically over resumes."""

    def __init__(self, run: Any) -> None:
        self._run: Any = run

    def log(self, row: Mapping[str, Any]) -> None:
        if self._run is not None:
            values = {key: value for key, value in row.items() if value is not None and key != "step"}
            self._try(lambda: self._run.log(values, step=int(row["step"])))

    def finish(self, preempted: bool) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            with contextlib.suppress(Exception):
                if preempted:
                    run.mark_preempting()
            with contextlib.suppress(Exception):
                run.finish(exit_code=1 if preempted else 0, quiet=True)

    def _try(self, action: Any) -> None:
        try:
            action()
        except Exception as error:
            self._run = None
            say(f"tracking is off from here on: {type(error).__name__}: {error}")


def start(settings: Any, paths: RunPaths, config: Mapping[str, Any]) -> Tracker:
    """The tracker that ``tracking:`` asks for: ``{wandb: {project: ..., mode: offline}}``; empty = none."""
    wanted = settings.get("wandb") if isinstance(settings, Mapping) else None
    if not wanted:
        return OFF
    options = dict(wanted) if isinstance(wanted, Mapping) else {}
    try:
        import wandb  # type: ignore[import-not-found,unused-ignore]

        known = paths.wandb_id.read_text().strip() if paths.wandb_id.exists() else ""
        limits = wandb.Settings(init_timeout=float(options.pop("timeout_s", 20)))
        run = wandb.init(
            id=known or None, resume="allow", dir=str(paths.root), config=dict(config), settings=limits,
            **{"project": "unbroken", "mode": "offline", **options},
        )  # fmt: skip
        if not known:
            write_atomic(paths.wandb_id, f"{run.id}\n", durable=False)
    except Exception as error:
        say(f"tracking is off: {type(error).__name__}: {error}")
        return OFF
    return Wandb(run)

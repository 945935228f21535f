"""Where the time went, over all runs: every allocated second counted once."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unbroken.report.history import History
from unbroken.report.spans import Attempt


@dataclass
class Ledger:
    """Seconds, and seconds times GPUs."""

    seconds: dict[str, float]
    gpu_seconds: dict[str, float]
    runs_without_saves: int = 0
    """Runs whose trainer does not record its saves: their lost time is not known."""

    @property
    def allocated(self) -> float:
        """Seconds in which a run held its resources."""
        return sum(self.seconds[line] for line in ALLOCATED)

    @property
    def gpu_allocated(self) -> float:
        return sum(self.gpu_seconds[line] for line in ALLOCATED)

    @property
    def useful_share(self) -> float | None:
        """Useful part of the allocated time; None where nothing has run."""
        return self.seconds["useful"] / self.allocated if self.allocated else None


ALLOCATED = ("useful", "saving", "starting", "lost_crash", "lost_interruption")
LINES: dict[str, tuple[str, str]] = {
    "useful": ("Useful", "training whose steps are kept: in the result, or in the newest checkpoint"),
    "replayed": (
        "of it replayed",
        "steps trained a second time, because their first training was lost; estimated by time",
    ),
    "saving": ("Checkpointing", "training stood still while a checkpoint was written"),
    "starting": ("Starting again", "from the start of a resumed attempt until its checkpoint was loaded"),
    "lost_crash": (
        "Wasted by crashes",
        "after the last save of an attempt that failed: an error, no memory, no result",
    ),
    "lost_interruption": (
        "Lost to interruptions",
        "after the last save of an attempt that was killed or lost its node",
    ),
    "queued": ("Queued", "waiting in Slurm's queue; holds no resources and is not in the sum"),
}
"""Name and definition of each line."""


def gpus_of(resources: Mapping[str, Any], attempt: Attempt | None = None) -> float:
    """GPUs of an attempt: as Slurm allocated them, else as the collection asks for them."""
    if attempt is not None and attempt.row is not None and attempt.row.allocated_tres:
        return _count(attempt.row.allocated_tres.get("gres/gpu", "0"))
    for key in ("gpu", "gpus"):
        if resources.get(key):
            return _count(str(resources[key]))
    asked = str(resources.get("gres") or "").split(",")
    return sum(_count(item.removeprefix("gres/")) for item in asked if item.removeprefix("gres/").startswith("gpu"))


def _count(text: str) -> float:
    """``2``, ``gpu:2``, ``gpu:a100:2``, ``a100:2``; a name alone is one."""
    last = text.replace("=", ":").split(":")[-1]
    return float(last) if last.isdigit() else 1.0


def add_up(histories: Iterable[History]) -> Ledger:
    """The ledger of these runs."""
    seconds = dict.fromkeys(LINES, 0.0)
    gpu_seconds = dict.fromkeys(LINES, 0.0)
    blind = 0
    for history in histories:
        blind += not history.saves_known and bool(history.interruptions)
        seconds["queued"] += sum(span.seconds for span in history.queued)
        for attempt in history.attempts:
            gpus = gpus_of(history.record.run.of.resources, attempt)
            lost = "lost_crash" if attempt.ending == "failed" else "lost_interruption"
            for line, spent in (
                ("useful", attempt.spent("running", "replayed")),
                ("replayed", attempt.spent("replayed")),
                ("saving", attempt.spent("saving")),
                ("starting", attempt.spent("starting")),
                (lost, attempt.spent("lost")),
            ):
                seconds[line] += spent
                gpu_seconds[line] += gpus * spent
    return Ledger(seconds, gpu_seconds, blind)

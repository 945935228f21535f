"""Which checkpoints stay besides last.pt and previous.pt, which no rule ever removes."""

import contextlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Retention:
    """The ``keep_last`` newest (2 = the pair), each ``keep_every``-th effective batch, the ``keep_best`` best."""

    keep_last: int = 2
    keep_every: int = 0
    keep_best: int = 0
    """By the sidecar's ``metric``; smaller is better."""

    @property
    def extra(self) -> bool:
        """Whether anything is kept besides the pair."""
        return self.keep_last > 2 or self.keep_every > 0 or self.keep_best > 0

    @staticmethod
    def kept(folder: Path) -> list[Path]:
        """The further checkpoints, ``step_<global_step>.pt``, newest first."""
        return sorted(folder.glob("step_*.pt"), reverse=True)

    def apply(self, last: Path, sidecar: dict[str, Any]) -> None:
        """Give the checkpoint just saved its own name, then remove those that no rule keeps.

        Raises:
            OSError: the disk does not take the name.
        """
        if not self.extra:
            return
        own = last.with_name(f"step_{int(sidecar['global_step']):012d}.pt")
        for source, target in ((last, own), (last.with_suffix(".json"), own.with_suffix(".json"))):
            beside = target.with_name(target.name + ".new")
            beside.unlink(missing_ok=True)
            try:
                os.link(source, beside)
            except OSError:
                shutil.copyfile(source, beside)
            os.replace(beside, target)
        for path in self._superfluous(last.parent):
            with contextlib.suppress(OSError):
                path.unlink()
                path.with_suffix(".json").unlink(missing_ok=True)

    def _superfluous(self, folder: Path) -> list[Path]:
        steps = {path: int(path.stem.removeprefix("step_")) for path in self.kept(folder)}
        stay = set(list(steps)[: self.keep_last])
        if self.keep_every:
            stay |= {path for path, step in steps.items() if step % self.keep_every == 0}
        if self.keep_best:
            judged = [(metric, step, path) for path, step in steps.items() if (metric := _metric(path)) is not None]
            stay |= {path for _, _, path in sorted(judged)[: self.keep_best]}
        return [path for path in steps if path not in stay]


def _metric(path: Path) -> float | None:
    try:
        value = json.loads(path.with_suffix(".json").read_bytes()).get("metric")
    except (OSError, ValueError):
        return None
    return float(value) if isinstance(value, int | float) and value == value else None

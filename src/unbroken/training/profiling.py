"""torch.profiler over a few effective batches: a Chrome trace and a table in ``profile/``. Off costs nothing.

Settings (``profiling:``): ``{wait: 1, warmup: 1, active: 3, shapes: true, memory: true, stacks: false, rows: 20}``.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from unbroken.collection.run_dir import RunPaths
from unbroken.training.progress import say


class Profiler:
    """The window of one attempt: after ``wait`` and ``warmup`` effective batches, ``active`` of them are recorded."""

    def __init__(self, settings: Mapping[str, Any], paths: RunPaths, device: torch.device) -> None:
        self._folder = paths.profile
        self._rows = int(settings.get("rows", 20))
        self._sort = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
        counts = {key: int(settings.get(key, default)) for key, default in (("wait", 1), ("warmup", 1), ("active", 3))}
        self._profile: Any = profile(
            activities=activities,
            schedule=schedule(**counts, repeat=1),
            on_trace_ready=self._write,
            record_shapes=bool(settings.get("shapes", True)),
            profile_memory=bool(settings.get("memory", True)),
            with_stack=bool(settings.get("stacks", False)),
        )
        self._profile.start()

    def step(self) -> None:
        """One effective batch is over."""
        if self._profile is not None:
            self._profile.step()

    def stop(self) -> None:
        if self._profile is not None:
            ending, self._profile = self._profile, None
            try:
                ending.stop()
            except Exception as error:
                say(f"profiling ended early: {error}")

    def _write(self, done: Any) -> None:
        """A failure here is said, and stops nothing."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            number = len(list(self._folder.glob("trace-*.json"))) + 1
            done.export_chrome_trace(str(self._folder / f"trace-{number}.json"))
            table = done.key_averages().table(sort_by=self._sort, row_limit=self._rows)
            (self._folder / f"table-{number}.txt").write_text(table + "\n")
            say(f"profile: {self._folder / f'trace-{number}.json'} (open it at https://ui.perfetto.dev)")
        except (OSError, RuntimeError) as error:
            say(f"no profile is written: {error}")


def start(settings: Any, paths: RunPaths, device: torch.device) -> Profiler | None:
    """The profiler that ``profiling:`` asks for; empty = none."""
    if not isinstance(settings, Mapping) or not settings or settings.get("enabled") is False:
        return None
    return Profiler(settings, paths, device)

"""What can be known of an attempt from outside the trainer: memory, and progress."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from unbroken.collection.run_dir import RunPaths

_MARKS = ("oom-kill event", "oom_kill event", "Out Of Memory", "oom-kill:")
"""Written by slurmstepd and the kernel."""


@dataclass(frozen=True)
class Progress:
    """Where a run stands on disk."""

    step: int | None
    """global_step of last.json; None for a program that writes no sidecar."""
    stamp: tuple[int, int] | None
    """Modification time and size of last.pt."""

    @classmethod
    def of(cls, paths: RunPaths) -> "Progress":
        try:
            stat = paths.last.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            return cls(None, None)
        try:
            sidecar = json.loads(RunPaths.sidecar(paths.last).read_bytes())
            step = next((sidecar[key] for key in ("global_step", "step") if type(sidecar.get(key)) is int), None)
        except (OSError, ValueError, AttributeError):
            step = None
        return cls(step, stamp)

    @classmethod
    def parse(cls, value: object) -> "Progress":
        """Back from ``dump()``; nothing known where it is something else."""
        if not isinstance(value, list) or len(value) != 3:
            return cls(None, None)
        step, mtime, size = value
        return cls(step, None if mtime is None else (mtime, size))

    def dump(self) -> list[int | None]:
        return [self.step, *(self.stamp or (None, None))]

    def beyond(self, before: "Progress") -> bool:
        """Further than ``before``: by step where told, else by a new last.pt."""
        if self.step is not None:
            return self.step > (before.step or 0)
        return self.stamp is not None and self.stamp != before.stamp


def _memory_folders() -> list[tuple[Path, str]]:
    """This process's memory cgroup and, inside a Slurm job, those above it, each with its file of counters."""
    folders: list[tuple[Path, str]] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        _, controllers, path = line.split(":", 2)
        version_2 = controllers == ""
        if not version_2 and "memory" not in controllers.split(","):
            continue
        for mount in mounts:
            left, _, right = mount.partition(" - ")
            kind, _, options = right.split(" ", 2)
            root, point = left.split(" ")[3:5]
            if kind != ("cgroup2" if version_2 else "cgroup") or (not version_2 and "memory" not in options.split(",")):
                continue
            inside = os.path.relpath(path, root) if path.startswith(root) else path.lstrip("/")
            folder = Path(point, inside)
            counters = "memory.events" if version_2 else "memory.oom_control"
            folders.append((folder, counters))
            while "job_" in folder.name or "step_" in folder.name or "task_" in folder.name or folder.name == "user":
                folder = folder.parent
                if "job_" in str(folder):
                    folders.append((folder, counters))
            break
    return folders


class Memory:
    """The out-of-memory kills of our own cgroup, from now on."""

    def __init__(self) -> None:
        self._folders = _memory_folders()
        self._before = self._kills()

    def _kills(self) -> dict[Path, int]:
        counts = {}
        for folder, counters in self._folders:
            try:
                for line in (folder / counters).read_text().splitlines():
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        counts[folder] = int(value)
            except (OSError, ValueError):
                continue
        return counts

    def killed(self, log: Path, limit_mb: int | None, by_sigkill: bool) -> bool:
        """Whether the kernel killed something of ours for its memory.

        Args:
            limit_mb: what the run asked for; a SIGKILL close to it counts, where no counter can be read.
            by_sigkill: the trainer ended by SIGKILL; without that, only the counters are believed.
        """
        after = self._kills()
        if any(count > self._before.get(folder, 0) for folder, count in after.items()):
            return True
        if not by_sigkill:
            return False
        from unbroken.launch.say import last_lines

        if any(mark in line for line in last_lines(log) for mark in _MARKS):
            return True
        return not after and limit_mb is not None and largest_process_mb() >= 0.95 * limit_mb

    def used_mb(self, whole_job: bool = False) -> int:
        """The most that our step's cgroup (or the whole job's, which is what Slurm limits) has had in memory."""
        peaks = [largest_process_mb()]
        for folder, counters in self._folders if whole_job else self._folders[:1]:
            if "job_" not in str(folder):
                continue  # not ours alone
            name = "memory.peak" if counters == "memory.events" else "memory.max_usage_in_bytes"
            try:
                peaks.append(int((folder / name).read_text()) >> 20)
            except (OSError, ValueError):
                continue
        return max(peaks)


def reads_as_json(path: Path) -> bool:
    """Whether the file is there and was not cut short."""
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def largest_process_mb() -> int:
    """Peak resident memory of the largest process that has been reaped."""
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10

"""How much memory this process may still take: for a second copy of the training state."""

from pathlib import Path

_GROUPS = (
    # (controller in /proc/self/cgroup, mount, limit, usage) of cgroup v2 and v1
    ("", "/sys/fs/cgroup", "memory.max", "memory.current"),
    ("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def free_memory() -> int | None:
    """Bytes left on this machine and in every memory cgroup above this process; None where nobody says."""
    found = [left for left in (_machine(), *_cgroups()) if left is not None]
    return min(found, default=None)


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def _cgroups() -> list[int]:
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for name, mount, limit, usage in _GROUPS:
            if name in controllers.split(","):
                here = Path(mount, path.lstrip("/"))
                for folder in (here, *here.parents):
                    found += _left(folder, limit, usage)
                    if folder == Path(mount):
                        break
    return found


def _left(folder: Path, limit: str, usage: str) -> list[int]:
    try:
        most = (folder / limit).read_text().strip()
        return [] if most == "max" else [int(most) - int((folder / usage).read_text()) + _cache(folder)]
    except (OSError, ValueError):
        return []


def _cache(folder: Path) -> int:
    """Bytes of files in memory, which the kernel gives back when somebody needs them."""
    for line in (folder / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name in ("total_inactive_file", "inactive_file"):
            return int(value)
    return 0

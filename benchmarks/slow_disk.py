"""A disk held to a rate, for this process and its children: the goals are for disks slower than this machine's."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

RATE = 250_000_000
"""Bytes a second: here torch.save takes what the goals' table says of it, 1.29 to 1.51 of the plain write."""
_CGROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def held_to_rate(folder: Path) -> Iterator[bool]:
    """Hold what is written to ``folder``'s disk to RATE; False where that cannot be done (not root, no disk below)."""
    parent = _CGROUPS / "blkio" if (_CGROUPS / "blkio").is_dir() else _CGROUPS
    group = parent / f"unbroken-bench-{os.getpid()}"
    try:
        _make(group, _disk_of(folder))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        (parent / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _make(group: Path, disk: str) -> None:
    """Raises OSError where the kernel does not take it; nothing is left then."""
    group.mkdir()
    try:
        if group.parent == _CGROUPS:
            (_CGROUPS / "cgroup.subtree_control").write_text("+io")
            (group / "io.max").write_text(f"{disk} wbps={RATE}")
        else:
            (group / "blkio.throttle.write_bps_device").write_text(f"{disk} {RATE}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        group.rmdir()
        raise


def _disk_of(folder: Path) -> str:
    """major:minor of the whole disk; raises OSError where the file system lies on none."""
    device = folder.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
    return ((place.parent if (place / "partition").exists() else place) / "dev").read_text().strip()

"""Find and end what belongs to one instance: processes and cgroups."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .host import CGROUP_ROOT, ETC_SLURM

MARKER = "TESTCLUSTER_ROOT"  # in the environment of every client command and so of every job
POLL_S = 0.05
HANG_S = 120.0
"""Longer, seconds, no answer and no event takes on the slowest machine."""


@dataclass(frozen=True)
class Process:
    """A living process that belongs to the instance."""

    pid: int
    name: str
    command: str


def until(check: Callable[[], object], what: str, timeout_s: float = HANG_S) -> None:
    """Wait until `check` is true; TimeoutError names what was waited for."""
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(POLL_S)


def alive(pid: int) -> bool:
    """Say whether the process runs; a zombie does not."""
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of the process: with the pid, it names one process for good."""
    try:
        return int(_stat(pid)[19])
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def session(pid: int) -> int:
    """The session id of the process, or -1 when it is gone."""
    try:
        return int(_stat(pid)[3])
    except OSError:
        return -1


def namespace(pid: int) -> str:
    """The mount namespace of the process, or "" when it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def of_node(pid: int, node: str) -> bool:
    """Say whether the process is a job's, or the slurmstepd of one, on this node: for where a node has no namespace.

    The cgroup says so or, without cgroups, the environment; slurmstepd has neither then and is known by its child.
    """
    with contextlib.suppress(OSError):
        if re.search(rf"/(slurm_{node}/|{node}_slurmstepd\.)", Path(f"/proc/{pid}/cgroup").read_text()):
            return True
    mark = f"SLURMD_NODENAME={node}".encode()
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if _named_stepd(pid) else []
        return any(mark in _environment(p) for p in (pid, *map(int, children)))
    return False


def members(root: Path, etc: Path) -> list[Process]:
    """List the living processes of the instance.

    They see `etc` at /etc/slurm, carry the instance's mark in their environment, or are a slurmstepd of its slurmd:
    slurmstepd 24.11 writes its title over its environment, but keeps slurmd's working directory. The caller and its
    ancestors never count, whatever their environment says.
    """
    ours = {os.getpid()}
    parent = os.getppid()
    while parent > 0:
        ours.add(parent)
        try:
            parent = int(_stat(parent)[1])
        except OSError:
            break
    mark = f"{MARKER}={root}".encode()
    home = os.stat(etc) if etc.exists() else None
    log = os.stat(root / "log") if (root / "log").exists() else None
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) in ours:
            continue
        pid = int(entry.name)
        if (_belongs(pid, mark, home) or _is_stepd(pid, log)) and alive(pid):
            with contextlib.suppress(OSError):
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(Process(pid, name, command.strip()))
    return found


def _belongs(pid: int, mark: bytes, home: os.stat_result | None) -> bool:
    with contextlib.suppress(OSError):
        if home is not None and os.path.samestat(home, os.stat(f"/proc/{pid}/root{ETC_SLURM}")):
            return True
    with contextlib.suppress(OSError):
        return mark in _environment(pid)
    return False


def _environment(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def _named_stepd(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().startswith("slurmstepd")


def _is_stepd(pid: int, log: os.stat_result | None) -> bool:
    if log is None:
        return False
    with contextlib.suppress(OSError):
        return _named_stepd(pid) and os.path.samestat(log, os.stat(f"/proc/{pid}/cwd"))
    return False


def kill_all(find: Callable[[], Iterable[Process]], nodes: list[str], timeout_s: float = 60) -> None:
    """SIGKILL everything that `find` returns, again and again until it returns nothing."""

    def none_left() -> bool:
        found = list(find())
        for process in found:
            send(process.pid, signal.SIGKILL)
        if found:
            _thaw(nodes)
        return not found

    until(none_left, "the end of all processes of the test cluster", timeout_s)


def send(pid: int, number: int) -> None:
    """Send a signal; a process that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def cgroups(nodes: list[str]) -> list[Path]:
    """List the top cgroups that Slurm made for these nodes."""
    if not CGROUP_ROOT.exists():
        return []
    # v1: <controller>/slurm_<node>; v2: system.slice/<node>_slurmstepd.scope, perhaps below a container's own group.
    walk = os.walk(CGROUP_ROOT)
    return [Path(d) / s for d, subs, _ in walk for s in subs if "slurm" in s and any(n in s for n in nodes)]


def _thaw(nodes: list[str]) -> None:
    for top in cgroups(nodes):
        for frozen in top.rglob("freezer.state"):
            with contextlib.suppress(OSError):
                frozen.write_text("THAWED")


def remove_cgroups(nodes: list[str], timeout_s: float = 60) -> None:
    """Remove the nodes' cgroups, leaves first; a group may stay busy for a moment after its last process ended."""

    def none_left() -> bool:
        tops = cgroups(nodes)
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        return not any(t.exists() for t in tops)

    until(none_left, f"removal of the cgroups of {', '.join(nodes)}", timeout_s)

"""What this machine offers: packages, free ports, a private mount namespace, cgroups.

Every check that fails raises `ClusterUnavailable` with one line that says why.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "slurm-wlm-mysql-plugin",
    "munge",
    "mariadb-server",
)
PROGRAMS = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "scontrol",
    "sacctmgr",
    "munged",
    "munge",
    "mariadbd",
    "mariadb-install-db",
)
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
CGROUP_ROOT = Path("/sys/fs/cgroup")
V1_CONTROLLERS = ("freezer", "memory", "cpuset", "cpuacct")  # what proctrack, task and jobacct_gather mount
ETC_SLURM = Path("/etc/slurm")  # where Debian's Slurm looks when SLURM_CONF is not set
POLICY = Path("/usr/sbin/policy-rc.d")  # Debian: exit 101 means "start no service"


class ClusterUnavailable(RuntimeError):
    """The test cluster cannot run here; the message is one line that says why."""


def which(program: str) -> str | None:
    """Find a program, also in the sbin folders that a user's PATH may lack."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":" + SBIN)


def check_host() -> None:
    """Make sure that this is root on a machine with Slurm, munge and MariaDB; install them if need be."""
    if os.geteuid() != 0:
        raise ClusterUnavailable("the test cluster needs root: slurmd must start jobs and limit their memory")
    missing = [p for p in PROGRAMS if which(p) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise ClusterUnavailable(f"missing {', '.join(missing)}, and there is no apt-get to install them with")
    _install()
    missing = [p for p in PROGRAMS if which(p) is None]
    if missing:
        raise ClusterUnavailable(f"still missing after apt-get install: {', '.join(missing)}")


def _install() -> None:
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    steps = ([*apt, "update"], [*apt, "install", "--no-install-recommends", *PACKAGES])
    with _no_services():
        for step in steps:
            done = subprocess.run(step, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            # A mirror that fails to update may still have the packages in its old lists: only install decides.
            if done.returncode and "install" in step:
                lines = [ln for ln in done.stderr.splitlines() if ln.startswith("E:")] or ["no message"]
                raise ClusterUnavailable(f"apt-get install {' '.join(PACKAGES)} failed: {lines[0]}")


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """Keep the packages from starting daemons of their own (also where systemd runs)."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def free_ports(count: int) -> list[int]:
    """Pick free TCP ports below the range that outgoing connections draw from, so that none is taken meanwhile."""
    held: list[socket.socket] = []
    chooser = random.SystemRandom()
    try:
        for _ in range(1000):
            if len(held) == count:
                return [s.getsockname()[1] for s in held]
            sock = socket.socket()
            try:
                sock.bind(("0.0.0.0", chooser.randrange(15000, 32000)))
            except OSError:
                sock.close()
            else:
                held.append(sock)
    finally:
        for sock in held:
            sock.close()
    raise ClusterUnavailable(f"no {count} free TCP ports between 15000 and 32000")


def has_mount_namespace(conf_dir: Path) -> bool:
    """Say whether `conf_dir` can be shown at /etc/slurm to our own processes alone."""
    if which("unshare") is None:
        return False
    # The one thing that this package may add outside its own folder: the empty directory that Debian's packages own.
    with contextlib.suppress(OSError):
        ETC_SLURM.mkdir(exist_ok=True)
    done = subprocess.run(in_namespace(conf_dir, ["true"]), capture_output=True, stdin=subprocess.DEVNULL)
    return done.returncode == 0


def in_namespace(conf_dir: Path, argv: list[str]) -> list[str]:
    """Wrap a command so that it, and all it starts, sees `conf_dir` at /etc/slurm; nobody else does.

    The mount lives exactly as long as these processes: there is nothing to unmount.
    """
    script = f'mount --bind "$1" {ETC_SLURM} && shift && exec "$@"'
    unshare = which("unshare") or "unshare"
    return [unshare, "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(conf_dir), *argv]


def detect_cgroup() -> str | None:
    """Say which cgroups Slurm can track and limit processes with: "v1", "v2" or None."""
    if all((CGROUP_ROOT / c / "cgroup.procs").exists() for c in V1_CONTROLLERS):
        return "v1" if all(_can_make_group(CGROUP_ROOT / c) for c in V1_CONTROLLERS) else None
    controllers = CGROUP_ROOT / "cgroup.controllers"
    if not controllers.exists() or not {"memory", "cpu", "cpuset"} <= set(controllers.read_text().split()):
        return None
    # A container's root group that holds processes cannot hand controllers down: then slurmd would not start.
    try:
        (CGROUP_ROOT / "cgroup.subtree_control").write_text("+memory +cpu +cpuset")
    except OSError:
        return None
    return "v2" if _can_make_group(CGROUP_ROOT) else None


def _can_make_group(parent: Path) -> bool:
    probe = parent / f"testcluster_probe_{os.getpid()}_{time.monotonic_ns()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True

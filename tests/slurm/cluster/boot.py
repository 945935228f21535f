"""From nothing to a cluster whose nodes are idle: the steps of `Cluster.start`."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from . import config, host
from .config import Layout, Ports
from .daemons import Daemons, answers
from .host import ClusterUnavailable
from .processes import MARKER

if TYPE_CHECKING:
    from .cluster import Cluster

ACCOUNT = "unbroken"
_LONGEST_ROOT = 60  # a Unix socket's path ends at 107 characters
_CLIENTS = ("srun", "sbatch", "squeue", "scontrol", "scancel", "sacct", "sacctmgr", "sinfo", "sstat", "salloc")


def prepare(cluster: Cluster) -> None:
    """Choose names, ports and tracking, and write every file."""
    cluster.cgroup = _tracking(cluster.proctrack)
    cluster.layout = layout = Layout(_make_root(cluster.root))
    layout.make()
    tag = secrets.token_hex(2)
    cluster.name = f"unbroken{tag}"
    cluster.nodes = [f"u{tag}n{i}" for i in range(1, cluster.node_count + 1)]
    numbers = host.free_ports(2 + cluster.node_count)
    cluster.ports = Ports(numbers[0], numbers[1], tuple(numbers[2:]))
    _write_files(cluster)
    if cluster.private_etc is not False:
        works = host.has_mount_namespace(layout.etc)
        if cluster.private_etc and not works:
            raise ClusterUnavailable("no private mount namespace here (unshare --mount is refused)")
        cluster.private_etc = works
    if not cluster.private_etc:
        _write_wrappers(layout)
    cluster._daemons = Daemons(layout, cluster.env, private=bool(cluster.private_etc))
    said = {key: getattr(cluster, key) for key in ("name", "nodes", "cgroup", "accounting", "private_etc")}
    layout.description.write_text(json.dumps(said | {"ports": asdict(cluster.ports)}, indent=1) + "\n")


def watch(cluster: Cluster) -> None:
    """See to it that the cluster ends with this process: at a normal exit here, at any other by a guard.

    The guard waits for the end of its input, which this process holds open for as long as it lives.
    """
    if cluster.detached:
        return
    atexit.register(cluster.stop)
    package = __package__ or ""
    cluster._guard = subprocess.Popen(
        [sys.executable, "-m", package, "guard", str(cluster.layout.root)],
        cwd=Path(__file__).resolve().parents[package.count(".") + 1],
        env={k: v for k, v in os.environ.items() if k != MARKER},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def start_daemons(cluster: Cluster) -> None:
    """Start the daemons, each when the ones that it needs have answered."""
    layout, daemons = cluster.layout, cluster._daemons
    munge = [f"--{k}={layout.munge_dir / v}" for k, v in _MUNGE_FILES.items()]
    daemons.start("munged", ["munged", "--foreground", "--num-threads=4", *munge])
    if cluster.accounting:
        _start_mariadb(cluster)
    ask = ["munge", "-n", "-S", str(layout.munge_socket)]
    daemons.wait("munged", lambda: cluster.run(ask, check=False).returncode == 0, "munged answering")
    if cluster.accounting:
        cluster.start_slurmdbd()
        for words in _ENTITIES:
            cluster.run(["sacctmgr", "-i", "add", *(w.format(cluster=cluster.name, account=ACCOUNT) for w in words)])
    cluster.start_slurmctld()
    for node in cluster.nodes:
        cluster.launch_slurmd(node)
    for node in cluster.nodes:
        cluster.wait_slurmd(node)


_MUNGE_FILES = {
    "socket": "socket",
    "key-file": "key",
    "pid-file": "pid",
    "log-file": "munged.log",
    "seed-file": "seed",
}
_ENTITIES = (
    ("cluster", "{cluster}"),
    ("account", "{account}", "cluster={cluster}"),
    ("qos", "normal", "second"),
    ("user", "root", "account={account}", "defaultaccount={account}", "qos=normal,second", "adminlevel=admin"),
)


def _tracking(wish: str) -> str | None:
    if wish not in ("auto", "cgroup", "linuxproc"):
        raise ValueError(f"proctrack {wish!r} is none of auto, cgroup, linuxproc")
    found = None if wish == "linuxproc" else host.detect_cgroup()
    if wish == "cgroup" and found is None:
        raise ClusterUnavailable("this machine has no cgroups that Slurm could track processes with")
    return found


def _make_root(wish: Path | None) -> Path:
    """Make the folder. Where its path is too long for the sockets in it, it becomes a link to a short one."""
    if wish is None:
        return _temporary_root()
    if wish.is_symlink() or (wish.exists() and any(wish.iterdir())):
        raise ClusterUnavailable(f"{wish} is there already: end the cluster in it first (down), or remove it")
    wish = wish.absolute()
    if len(str(wish)) > _LONGEST_ROOT:
        if wish.exists():
            wish.rmdir()
        wish.symlink_to(_temporary_root())
    else:
        wish.mkdir(parents=True, exist_ok=True)
    return wish.resolve()


def _temporary_root() -> Path:
    base = tempfile.gettempdir()
    root = Path(tempfile.mkdtemp(prefix="tc-", dir=base if len(base) < _LONGEST_ROOT - 15 else "/tmp")).resolve()
    root.chmod(0o755)
    return root


def _write_files(cluster: Cluster) -> None:
    layout = cluster.layout
    layout.slurm_conf.write_text(
        config.slurm_conf(
            layout,
            cluster.name,
            cluster.nodes,
            cluster.ports,
            cgroup=cluster.cgroup is not None,
            accounting=cluster.accounting,
            options=cluster.options,
            partitions=cluster.partitions,
        )
    )
    (layout.etc / "cgroup.conf").write_text(config.cgroup_conf(cluster.cgroup))
    (layout.etc / "gres.conf").write_text(config.gres_conf(layout, cluster.nodes))
    slurmdbd = layout.etc / "slurmdbd.conf"
    slurmdbd.touch(mode=0o600)
    slurmdbd.write_text(config.slurmdbd_conf(layout, cluster.ports))
    key = layout.munge_dir / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))


def _write_wrappers(layout: Layout) -> None:
    """Client commands that know their conf, first in PATH: the way where a job cannot be given its own /etc/slurm."""
    layout.bin.mkdir()
    for program in _CLIENTS:
        wrapper = layout.bin / program
        wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={layout.slurm_conf} exec {host.which(program)} "$@"\n')
        wrapper.chmod(0o755)


def _start_mariadb(cluster: Cluster) -> None:
    layout, daemons = cluster.layout, cluster._daemons
    common = [f"--datadir={layout.database}", "--user=root", "--skip-name-resolve", "--innodb-log-file-size=8M"]
    made = cluster.run(
        ["mariadb-install-db", "--no-defaults", *common, "--auth-root-authentication-method=normal", "--skip-test-db"],
        check=False,
    )
    if made.returncode:
        raise ClusterUnavailable(f"mariadb-install-db failed: {(made.stderr or made.stdout).strip().splitlines()[-1]}")
    sizes = ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--performance-schema=OFF"]
    # No TCP: the socket lies in the data folder, which only root may enter, and needs neither a password nor TLS.
    where = ["--skip-networking", f"--socket={layout.mariadb_socket}"]
    pid_file = f"--pid-file={layout.run}/mariadb.slurm.pid"
    # slurmdbd would make its database itself, but with libmariadb 11.8 it dies then (error 5027, see README.md).
    first = layout.run / "first.sql"
    first.write_text(f"CREATE DATABASE {config.DATABASE};\n")
    where.append(f"--init-file={first}")
    daemons.start("mariadbd", ["mariadbd", "--no-defaults", *common, *where, *sizes, "--skip-log-bin", pid_file])
    daemons.wait("mariadbd", lambda: answers(layout.mariadb_socket), "mariadbd answering")


def remove_root(cluster: Cluster) -> None:
    """Remove the folder, and the link to it if there is one."""
    shutil.rmtree(cluster.layout.root, ignore_errors=True)
    if cluster.root is not None and cluster.root.is_symlink():
        cluster.root.unlink()

"""`python -m tests.slurm.cluster up|down|status`: a cluster to play with, in `.cluster/`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .cluster import Cluster
from .host import ClusterUnavailable


def main() -> int:
    """Run one command; 0 on success, 1 with one line on stderr otherwise."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status", "guard"))
    parser.add_argument("root", nargs="?", type=Path, default=Path(".cluster"), help="its folder (default: .cluster)")
    args = parser.parse_args()
    try:
        return {"up": _up, "down": _down, "status": _status, "guard": _guard}[args.command](args.root)
    except (ClusterUnavailable, TimeoutError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


def _attach(root: Path) -> Cluster | None:
    try:
        return Cluster.attach(root)
    except FileNotFoundError:
        return None


def _up(root: Path) -> int:
    began = time.monotonic()
    cluster = _attach(root)
    if cluster is not None and len(cluster.daemons()) < len(cluster.nodes) + 2:
        cluster.stop()  # what a crash or a reboot left
        cluster = None
    if cluster is None:
        cluster = Cluster(root=root, detached=True).start()
        print(f"started in {time.monotonic() - began:.1f} s")
    return _describe(cluster)


def _status(root: Path) -> int:
    cluster = _attach(root)
    if cluster is None:
        print(f"no cluster in {root}")
        return 1
    print(cluster.run(["sinfo"], check=False).stdout, end="")
    for name, pid in cluster.daemons().items():
        print(f"{name}: pid {pid}")
    return _describe(cluster)


def _describe(cluster: Cluster) -> int:
    tracking = f"cgroup {cluster.cgroup}" if cluster.cgroup else "no cgroups"
    print(f"cluster {cluster.name}: nodes {', '.join(cluster.nodes)}; {tracking}; logs in {cluster.layout.log}")
    print("use it from this shell:")
    print(f"  export SLURM_CONF={cluster.layout.slurm_conf}")
    if cluster.layout.bin.exists():
        print(f"  export PATH={cluster.layout.bin}:$PATH")
    print("  sinfo; squeue; snakemake --profile slurm")
    return 0


def _down(root: Path) -> int:
    cluster = _attach(root)
    if cluster is None:
        print(f"no cluster in {root}")
        return 0
    cluster.stop()
    print(f"cluster {cluster.name} is gone")
    return 0


def _guard(root: Path) -> int:
    """Wait for the end of the process that holds the other end of stdin, then remove what it left."""
    sys.stdin.buffer.read()
    cluster = _attach(root)
    if cluster is not None:
        cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

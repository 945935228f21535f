"""A real Slurm on this machine for the tests."""

from .boot import ACCOUNT
from .client import GONE, Client, CommandFailed
from .cluster import Cluster
from .config import GRACE_S, KILL_WAIT_S, NODE_CPUS, NODE_GPUS, NODE_MEMORY_MB, PARTITIONS
from .host import ClusterUnavailable
from .processes import Process

__all__ = [
    "ACCOUNT",
    "GONE",
    "GRACE_S",
    "KILL_WAIT_S",
    "NODE_CPUS",
    "NODE_GPUS",
    "NODE_MEMORY_MB",
    "PARTITIONS",
    "Client",
    "Cluster",
    "ClusterUnavailable",
    "CommandFailed",
    "Process",
]

"""The files of one instance: slurm.conf and its companions, as text."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 20  # GraceTime of the partition `grace`
KILL_WAIT_S = 15  # from SIGTERM to SIGKILL where there is no grace time, and at the time limit
CRED_EXPIRE_S = 8  # a requeued job may start again one second after this
NODE_CPUS = 8
NODE_MEMORY_MB = 64000
NODE_GPUS = 2
DATABASE = "slurm_acct_db"

PARTITIONS: dict[str, str] = {
    "normal": "Default=YES PriorityTier=10 PreemptMode=REQUEUE GraceTime=0 MaxTime=UNLIMITED DefaultTime=60",
    "grace": f"PriorityTier=10 PreemptMode=REQUEUE GraceTime={GRACE_S} DefaultTime=60",
    "nograce": "PriorityTier=10 PreemptMode=REQUEUE GraceTime=0 DefaultTime=60",
    "cancel": "PriorityTier=10 PreemptMode=CANCEL GraceTime=0 DefaultTime=60",
    "high": "PriorityTier=100 PreemptMode=OFF DefaultTime=60",
    "short": "PriorityTier=10 PreemptMode=OFF MaxTime=2 DefaultTime=1",
    "down": "PriorityTier=10 State=DOWN DefaultTime=60",
}


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one instance."""

    slurmctld: int
    slurmdbd: int
    slurmd: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Every file of one instance."""

    root: Path

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def slurm_conf(self) -> Path:
        return self.etc / "slurm.conf"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def database(self) -> Path:
        return self.root / "db"

    @property
    def munge_dir(self) -> Path:
        return self.root / "munge"

    @property
    def munge_socket(self) -> Path:
        return self.munge_dir / "socket"

    @property
    def devices(self) -> Path:
        return self.root / "dev"

    @property
    def mariadb_socket(self) -> Path:
        return self.database / "socket"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def description(self) -> Path:
        return self.root / "cluster.json"

    def make(self) -> None:
        """Create the directories. Munge insists that nobody else may write to the ones it uses."""
        for path in (self.etc, self.run, self.log, self.state, self.spool, self.munge_dir, self.devices):
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        for index in range(NODE_GPUS):
            try:  # for a character device (here another /dev/null) Slurm also sets CUDA_VISIBLE_DEVICES
                os.mknod(self.devices / f"nvidia{index}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            except PermissionError:
                (self.devices / f"nvidia{index}").touch()


def slurm_conf(
    layout: Layout,
    name: str,
    nodes: list[str],
    ports: Ports,
    *,
    cgroup: bool,
    accounting: bool,
    options: Mapping[str, str],
    partitions: Mapping[str, str],
) -> str:
    """Render slurm.conf; `options` and `partitions` replace single lines of what stands here."""
    host = socket.gethostname().split(".")[0]
    kind = "cgroup" if cgroup else "linux"
    values = {
        "ClusterName": name,
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": str(ports.slurmctld),
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        # cred_expire also sets how long a requeued job must wait: begin time = now + cred_expire + 1.
        "AuthInfo": f"socket={layout.munge_socket},cred_expire={CRED_EXPIRE_S}",
        "StateSaveLocation": str(layout.state),
        "SlurmdSpoolDir": f"{layout.spool}/%n",
        "SlurmctldPidFile": f"{layout.run}/slurmctld.slurm.pid",
        "SlurmdPidFile": f"{layout.run}/%n.slurm.pid",
        "SlurmctldLogFile": f"{layout.log}/slurmctld.log",
        "SlurmdLogFile": f"{layout.log}/%n.log",
        "SlurmdParameters": "config_overrides",  # believe the CPUs and memory written below
        "ProctrackType": "proctrack/cgroup" if cgroup else "proctrack/linuxproc",
        "JobAcctGatherType": f"jobacct_gather/{kind}",
        "JobAcctGatherFrequency": "task=1",
        "MpiDefault": "none",
        "GresTypes": "gpu",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory,CR_LLN",  # least loaded node first: jobs seldom share one
        "DefMemPerCPU": "1000",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "sched_interval=1,bf_interval=1,batch_sched_delay=0",
        "PriorityType": "priority/basic",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "KillWait": str(KILL_WAIT_S),
        "CompleteWait": "0",
        "JobRequeue": "1",
        "MinJobAge": "300",
        "MaxJobCount": "20000",
        "SlurmctldTimeout": "15",
        "SlurmdTimeout": "15",
        "MessageTimeout": "10",
        # No node passes messages on: beside a dead one it would be late itself, and be given up too (seen with 24.11).
        "TreeWidth": "65533",
        "BatchStartTimeout": "20",
        "InactiveLimit": "0",
        "ReturnToService": "2",
    }
    if accounting:
        values |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(ports.slurmdbd),
            "AccountingStoragePass": str(layout.munge_socket),  # with munge, the password is the socket's path
            "AccountingStorageTRES": "gres/gpu",
        }
    if cgroup:
        values["TaskPlugin"] = "task/cgroup"
    # Without accounting or cgroups the keys stay out: the defaults mean none, and newer versions know no such plugins.
    values |= options
    lines = [f"{key}={value}" for key, value in values.items()]
    for node, port in zip(nodes, ports.slurmd, strict=True):
        lines.append(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
            f"CPUs={NODE_CPUS} RealMemory={NODE_MEMORY_MB} Gres=gpu:{NODE_GPUS} State=UNKNOWN"
        )
    for partition, text in (PARTITIONS | dict(partitions)).items():
        lines.append(f"PartitionName={partition} Nodes={','.join(nodes)} {text}")
    return "\n".join(lines) + "\n"


def cgroup_conf(cgroup: str | None) -> str:
    """Render cgroup.conf. The groups carry the node's name, so two instances never share one."""
    if cgroup is None:
        return ""
    lines = [
        f"CgroupPlugin=cgroup/{cgroup}",
        "CgroupMountpoint=/sys/fs/cgroup",
        "ConstrainRAMSpace=yes",
        "ConstrainSwapSpace=no",
        "ConstrainCores=no",  # the CPUs are invented
        "ConstrainDevices=no",  # so are the GPUs
    ]
    if cgroup == "v2":
        lines += ["IgnoreSystemd=yes", "EnableControllers=yes"]
    return "\n".join(lines) + "\n"


def gres_conf(layout: Layout, nodes: list[str]) -> str:
    """Render gres.conf. The GPUs are empty files: Slurm counts a gpu without a file as none (seen with 22.05)."""
    return f"NodeName={','.join(nodes)} Name=gpu File={layout.devices}/nvidia[0-{NODE_GPUS - 1}]\n"


def slurmdbd_conf(layout: Layout, ports: Ports) -> str:
    """Render slurmdbd.conf. Slurm demands mode 0600."""
    values = {
        "DbdHost": socket.gethostname().split(".")[0],
        "DbdAddr": "127.0.0.1",
        "DbdPort": ports.slurmdbd,
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "LogFile": layout.log / "slurmdbd.log",
        "PidFile": layout.run / "slurmdbd.slurm.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",  # the client library takes the socket that MYSQL_UNIX_PORT names
        "StorageUser": "root",
        "StorageLoc": DATABASE,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())

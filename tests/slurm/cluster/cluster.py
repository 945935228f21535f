"""The life of one instance: start, stop, and what can go wrong with its daemons in between."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import boot, host, processes
from .client import Client
from .config import Layout, Ports
from .daemons import Daemons
from .host import ClusterUnavailable
from .processes import Process


@dataclass
class Cluster(Client):
    """A real Slurm on this machine, in one folder, beside any other.

    Args:
        root: The instance's folder; a new one below the temporary folder by default.
        node_count: How many slurmd.
        accounting: slurmdbd on MariaDB, or `accounting_storage/none`.
        proctrack: "auto" (cgroups where the kernel allows), "cgroup" (or ClusterUnavailable), "linuxproc".
        options: Lines of slurm.conf to replace or add, as `{"MinJobAge": "2"}`.
        partitions: Partitions to replace or add, as `{"tiny": "MaxTime=1"}` (see `config.PARTITIONS`).
        detached: The cluster outlives this process (`up`); otherwise it ends with it, however that ends.
        private_etc: False tries the way without a mount namespace; None takes what the machine allows.
    """

    root: Path | None = None
    node_count: int = 4
    accounting: bool = True
    proctrack: str = "auto"
    options: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    detached: bool = False
    private_etc: bool | None = None

    name: str = field(init=False, default="")
    nodes: list[str] = field(init=False, default_factory=list)
    cgroup: str | None = field(init=False, default=None)
    layout: Layout = field(init=False)
    ports: Ports = field(init=False)

    _daemons: Daemons = field(init=False, repr=False)
    cgroup_refused: str = field(init=False, default="")  # why cgroup v2 was found but not used

    _guard: subprocess.Popen[bytes] | None = field(init=False, default=None, repr=False)

    def start(self) -> Cluster:
        """Start everything and return when all nodes are usable; raise ClusterUnavailable with one line otherwise."""
        host.check_host()
        try:
            return self._start()
        except ClusterUnavailable as error:
            if self.proctrack != "auto" or self.cgroup != "v2":
                raise
            # A container may allow v2 groups to us and yet not to slurmd.
            self.cgroup_refused, self.proctrack = str(error), "linuxproc"
            return self._start()

    def _start(self) -> Cluster:
        try:
            boot.prepare(self)
            boot.watch(self)
            boot.start_daemons(self)
        except BaseException as error:
            self.stop()
            if isinstance(error, (ClusterUnavailable, KeyboardInterrupt, SystemExit)):
                raise
            raise ClusterUnavailable(f"the test cluster did not start: {' '.join(str(error).split())}") from error
        return self

    def stop(self) -> None:
        """End every process, job and cgroup of the instance and remove its folder. Idempotent."""
        atexit.unregister(self.stop)
        if not hasattr(self, "_daemons"):
            if hasattr(self, "layout"):
                boot.remove_root(self)
            return

        def left() -> list[Process]:
            self._daemons.reap_all()
            return self.everything()

        processes.kill_all(left, self.nodes)
        for node in self.nodes:
            self._daemons.forget_namespaces(node)
        processes.remove_cgroups(self.nodes)
        if not os.environ.get("TESTCLUSTER_KEEP"):
            boot.remove_root(self)
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()
            self._guard.wait(timeout=20)
            self._guard = None

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @classmethod
    def attach(cls, root: Path) -> Cluster:
        """Take hold of an instance that another process started; FileNotFoundError where there is none."""
        layout = Layout(root.resolve())
        said = json.loads(layout.description.read_text())
        ports = said.pop("ports")
        cluster = cls(root=root, detached=True)
        for key, value in said.items():
            setattr(cluster, key, value)
        cluster.layout = layout
        cluster.ports = Ports(ports["slurmctld"], ports["slurmdbd"], tuple(ports["slurmd"]))
        cluster._daemons = Daemons(layout, cluster.env, private=bool(cluster.private_etc))
        return cluster

    def daemons(self) -> dict[str, int]:
        """The daemons that run, with their pids."""
        return self._daemons.running()

    def everything(self) -> list[Process]:
        """All living processes of the instance: daemons, jobs, commands run with its environment."""
        return processes.members(self.layout.root, self.layout.etc)

    def leftovers(self) -> list[Process]:
        """All living processes of the instance except its running daemons: empty when no job and no command runs."""
        pids = set(self.daemons().values())
        return [p for p in self.everything() if p.name.startswith("slurmstepd") or processes.session(p.pid) not in pids]

    def kill_slurmd(self, node: str, *, jobs: bool = False) -> None:
        """SIGKILL the slurmd of a node; with `jobs`, everything on the node, as when it loses power."""
        namespaces = self._daemons.namespaces(node)
        self._daemons.stop(node, signal.SIGKILL)

        def on_it(pid: int) -> bool:
            return processes.namespace(pid) in namespaces if self.private_etc else processes.of_node(pid, node)

        if jobs:
            processes.kill_all(lambda: [p for p in self.everything() if on_it(p.pid)], [node])
            self._daemons.forget_namespaces(node)

    def start_slurmd(self, node: str) -> None:
        """Start the slurmd of a node and wait until the controller can use it."""
        self.launch_slurmd(node)
        self.wait_slurmd(node)

    def launch_slurmd(self, node: str) -> None:
        """Start the slurmd of a node without waiting for it."""
        self._daemons.start(node, ["slurmd", "-D", "-N", node, "-f", str(self.layout.slurm_conf)])

    def wait_slurmd(self, node: str) -> None:
        """Wait until the controller can use the node."""

        def usable() -> bool:
            state = self.node_state(node)
            if "drain" in state or "inval" in state:
                raise ClusterUnavailable(f"node {node} is {state}: {self.node_reason(node)}")
            return state in ("idle", "mixed", "allocated", "completing")

        # The controller may still take a node that was killed a moment ago for usable: slurmd itself answers first.
        self._daemons.wait_port(node, self.ports.slurmd[self.nodes.index(node)])
        self._daemons.wait(node, usable, f"node {node} usable")
        self._daemons.namespaces(node)

    def node_state(self, node: str) -> str:
        """The state of the node as sinfo names it (idle, mixed, allocated, down, ...).

        An idle node can stay "mixed" here for long: Slurm refreshes that count only at the node's next change.
        """
        return self.run(["sinfo", "-h", "-N", "-n", node, "-p", "normal", "-o", "%T"], check=False).stdout.strip()

    def resume_drained(self) -> list[str]:
        """Take every drained node back into use, as an administrator does; returns them."""
        drained = sorted(set(self.run(["sinfo", "-h", "-N", "-t", "drain", "-o", "%N"]).stdout.split()))
        if drained:
            self.run(["scontrol", "update", f"NodeName={','.join(drained)}", "State=RESUME"])
        return drained

    def node_reason(self, node: str) -> str:
        """Why the node is down or drained, in Slurm's words."""
        return self.run(["sinfo", "-h", "-N", "-n", node, "-p", "normal", "-o", "%E"], check=False).stdout.strip()

    def stop_slurmctld(self, number: int = signal.SIGTERM) -> None:
        """End the controller; the nodes and jobs go on."""
        self._daemons.stop("slurmctld", number)

    def start_slurmctld(self) -> None:
        """Start the controller (again) and wait until it answers."""
        self._daemons.start("slurmctld", ["slurmctld", "-D", "-f", str(self.layout.slurm_conf)])
        self._daemons.wait_port("slurmctld", self.ports.slurmctld)
        ping = ["scontrol", "ping"]
        self._daemons.wait("slurmctld", lambda: "is UP" in self.run(ping, check=False).stdout, "slurmctld answering")

    def restart_slurmctld(self, number: int = signal.SIGTERM) -> None:
        """Stop and start the controller."""
        self.stop_slurmctld(number)
        self.start_slurmctld()

    def keep_state(self) -> Path:
        """What the controller knows now, for `lose_state`."""
        self.stop_slurmctld()  # it saves everything as it ends, and otherwise every few seconds
        kept = self.layout.root / "kept-state"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.layout.state, kept)
        self.start_slurmctld()
        return kept

    def lose_state(self, kept: Path | None = None) -> None:
        """Kill the controller and let it start with what it knew then, or with nothing: it forgets jobs, reuses ids."""
        self.stop_slurmctld(signal.SIGKILL)
        shutil.rmtree(self.layout.state)
        if kept:
            shutil.copytree(kept, self.layout.state)
        else:
            self.layout.state.mkdir()
        self.start_slurmctld()

    def stop_slurmdbd(self, number: int = signal.SIGTERM) -> None:
        """End the accounting daemon; MariaDB stays."""
        self._daemons.stop("slurmdbd", number)

    def start_slurmdbd(self) -> None:
        """Start the accounting daemon (again) and wait until it answers."""
        self._daemons.start("slurmdbd", ["slurmdbd", "-D"])
        self._daemons.wait_port("slurmdbd", self.ports.slurmdbd)
        ask = ["sacctmgr", "-n", "show", "cluster"]
        self._daemons.wait("slurmdbd", lambda: self.run(ask, check=False).returncode == 0, "slurmdbd answering")

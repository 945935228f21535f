"""Start and end the daemons of one instance; a pid file each, so that any process can take over."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from .config import Layout
from .host import ClusterUnavailable, in_namespace, which
from .processes import alive, namespace, send, start_time, until

START_S = 120.0


class Daemons:
    """The daemons of one instance, by name."""

    def __init__(self, layout: Layout, env: dict[str, str], *, private: bool) -> None:
        self._layout = layout
        self._env = env | {"MYSQL_UNIX_PORT": str(layout.mariadb_socket)}
        self._private = private
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._held: dict[str, list[int]] = {}

    def start(self, name: str, argv: list[str]) -> None:
        """Start a daemon in the foreground of its own session, with its own view of /etc/slurm."""
        self._reap(name)
        command = [which(argv[0]) or argv[0], *argv[1:]]
        if self._private:
            command = in_namespace(self._layout.etc, command)
        with open(self._layout.log / f"{name}.out", "ab") as out:
            child = subprocess.Popen(
                command,
                env=self._env,
                cwd=self._layout.log,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._children[name] = child
        self._pid_file(name).write_text(f"{child.pid} {start_time(child.pid)}\n")

    def pid(self, name: str) -> int | None:
        """The pid of the daemon, None when it does not run."""
        try:
            pid, started = self._pid_file(name).read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid) if alive(int(pid)) and str(start_time(int(pid))) == started else None

    def running(self) -> dict[str, int]:
        """All daemons that run, by name."""
        names = [p.stem for p in self._layout.run.glob("*.pid") if not p.name.endswith(".slurm.pid")]
        return {name: pid for name in sorted(names) if (pid := self.pid(name)) is not None}

    def stop(self, name: str, number: int = signal.SIGTERM, timeout_s: float = 60) -> None:
        """Send the daemon a signal and wait until it is gone."""
        pid = self.pid(name)
        if pid is not None:
            send(pid, number)
            until(lambda: not self._still(name, pid), f"the end of {name}", timeout_s)
        self._reap(name)
        self._pid_file(name).unlink(missing_ok=True)

    def wait_port(self, name: str, port: int) -> None:
        """Wait until the daemon listens."""
        self.wait(name, lambda: answers(port), f"{name} listening on port {port}")

    def wait(self, name: str, check: Callable[[], object], what: str, timeout_s: float = START_S) -> None:
        """Wait for `check`; give up at once, with the last line of its log, when the daemon ends."""

        def done() -> bool:
            if self.pid(name) is None:
                raise ClusterUnavailable(f"{name} ended while starting: {self.last_words(name)}")
            return bool(check())

        try:
            until(done, what, timeout_s)
        except TimeoutError as error:
            raise ClusterUnavailable(f"{error} ({self.last_words(name)})") from None

    def last_words(self, name: str) -> str:
        """The line of the daemon's log that says most about its end."""
        lines: list[str] = []
        for path in (self._layout.log / f"{name}.log", self._layout.log / f"{name}.out"):
            with contextlib.suppress(OSError):
                lines += [ln.strip() for ln in path.read_text(errors="replace").splitlines() if ln.strip()]
        # slurmd complains of MPI plugins whose libraries Debian only suggests, and goes on.
        lines = [ln for ln in lines if "mpi" not in ln.lower()]
        telling = [ln for ln in lines if any(w in ln.lower() for w in ("fatal", "error", "in use", "denied"))]
        return (telling or lines or ["its log is empty"])[-1]

    def reap_all(self) -> None:
        """Collect all children that ended, so that none stays as a zombie."""
        for name in list(self._children):
            self._reap(name)

    def namespaces(self, name: str) -> set[str]:
        """Mount namespaces that incarnations of this daemon have lived in; its jobs live on in them.

        Each is held open: the kernel gives the number of one that nobody holds to the next daemon that starts.
        """
        path = self._layout.run / f"{name}.ns"
        known = set(path.read_text().split()) if path.exists() else set()
        pid = self.pid(name)
        now = namespace(pid) if pid else ""
        if self._private and now and now not in known and now != namespace(os.getpid()):
            known.add(now)
            self._held.setdefault(name, []).append(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY))
            path.write_text("\n".join(sorted(known)) + "\n")
        return known

    def forget_namespaces(self, name: str) -> None:
        """Nothing lives in them any more."""
        (self._layout.run / f"{name}.ns").unlink(missing_ok=True)
        for handle in self._held.pop(name, []):
            os.close(handle)

    def _still(self, name: str, pid: int) -> bool:
        child = self._children.get(name)
        if child is not None and child.pid == pid:
            return child.poll() is None
        return alive(pid)

    def _reap(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            del self._children[name]

    def _pid_file(self, name: str) -> Path:
        return self._layout.run / f"{name}.pid"


def answers(address: int | Path) -> bool:
    """Say whether something listens on this TCP port of this machine, or on this Unix socket."""
    family = socket.AF_INET if isinstance(address, int) else socket.AF_UNIX
    with socket.socket(family) as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", address) if isinstance(address, int) else str(address)) == 0

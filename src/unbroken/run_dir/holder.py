"""Who holds a run directory, and whether that process still lives."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path

AskSlurm = Callable[[str], "dict[str, str] | None"]
"""``unbroken.slurm.client.show_job``, or a stand-in; may raise SlurmError."""

_GONE = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"}
"""States in which Slurm has seen the job's processes end. Not NODE_FAIL: the node may live on unseen."""


class Life(Enum):
    """What can be told about a holder without watching it."""

    ALIVE = "alive"
    DEAD = "dead"
    SUPERSEDED = "superseded"
    """Slurm has started the same job again elsewhere; the old process may not know."""
    UNKNOWN = "unknown"
    """Another host and no word from Slurm: only its heartbeat tells."""


def boot_id() -> str:
    """Names this boot of this kernel; empty where /proc does not tell."""
    return _first_line("/proc/sys/kernel/random/boot_id")


def pid_namespace() -> str:
    """Process ids mean something only inside one of these."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """When ``pid`` started, in kernel ticks since boot; empty when there is no such living process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    after_name = stat.rpartition(")")[2].split()
    return "" if after_name[0] in "ZX" else after_name[19]


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Holder:
    """One lease file: a process that trains, or trained, in the run directory."""

    number: int
    token: str
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: str
    since: str
    heartbeat_s: float
    slurm_job_id: str | None = None
    slurm_cluster: str | None = None
    restart_count: int = 0
    released: bool = False

    @classmethod
    def me(cls, token: str, since: str, heartbeat_s: float, job_id: str | None, restart_count: int) -> "Holder":
        pid = os.getpid()
        return cls(
            number=0,
            token=token,
            host=os.uname().nodename,
            boot_id=boot_id(),
            pid_namespace=pid_namespace(),
            pid=pid,
            process_start=process_start(pid),
            since=since,
            heartbeat_s=heartbeat_s,
            slurm_job_id=job_id,
            slurm_cluster=os.environ.get("SLURM_CLUSTER_NAME"),
            restart_count=restart_count,
        )

    @classmethod
    def parse(cls, content: bytes) -> "Holder | None":
        """The holder that a lease file names; None where it is torn or from something else."""
        try:
            value = json.loads(content)
            known = {field.name for field in fields(cls)}
            return cls(**{key: item for key, item in value.items() if key in known})
        except (ValueError, TypeError, AttributeError):
            return None

    def dump(self) -> bytes:
        return json.dumps(asdict(self), indent=2).encode() + b"\n"

    def __str__(self) -> str:
        job = f", Slurm job {self.slurm_job_id} (restart {self.restart_count})" if self.slurm_job_id else ""
        return f"process {self.pid} on {self.host}{job}, since {self.since}"

    @property
    def on_this_machine(self) -> bool:
        """Its process id means here what it meant there."""
        mine = (os.uname().nodename, boot_id(), pid_namespace())
        return (self.host, self.boot_id, self.pid_namespace) == mine

    def life(self, job_id: str | None = None, restart_count: int = 0, ask_slurm: AskSlurm | None = None) -> Life:
        """Alive, dead, or not to be told without watching; ``job_id`` and ``restart_count`` are the asker's own."""
        dead_here = self.on_this_machine and process_start(self.pid) != self.process_start
        if dead_here:
            return Life.DEAD
        if self.slurm_job_id and self.slurm_job_id == job_id and self.restart_count < restart_count:
            return Life.SUPERSEDED
        if self.on_this_machine:
            return Life.ALIVE
        # Of the asker's own number Slurm would tell how the asker is: a controller that died gives numbers again.
        if self.slurm_job_id and self.slurm_job_id != job_id and ask_slurm is not None:
            return self._as_slurm_says(ask_slurm)
        return Life.UNKNOWN

    def _as_slurm_says(self, ask_slurm: AskSlurm) -> Life:
        from unbroken.errors import SlurmError

        if self.slurm_cluster != os.environ.get("SLURM_CLUSTER_NAME"):
            return Life.UNKNOWN  # the number may be another job there
        try:
            job = ask_slurm(str(self.slurm_job_id))
        except SlurmError:
            return Life.UNKNOWN
        if job is None or int(job.get("Restarts", 0) or 0) > self.restart_count:
            return Life.UNKNOWN
        state = job.get("JobState", "")
        if state in ("RUNNING", "SUSPENDED", "COMPLETING"):
            return Life.ALIVE
        return Life.DEAD if state in _GONE else Life.UNKNOWN

"""The lease: at most one live trainer in a run directory, whatever Snakemake and Slurm do.

Numbered files ``lease/000007.json``; the highest number holds. A file is created with its content in one step (a hard
link, or O_EXCL), so two processes cannot both create one number, on a network file system neither. A holder beats by
touching its file; whoever doubts it watches the beats with its own monotonic clock and never compares two clocks. A
holder that finds a higher number has been taken for dead (it was frozen): it must kill its trainer at once.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import LeaseHeld
from unbroken.run_dir.files import utc_now, write_atomic
from unbroken.run_dir.holder import AskSlurm, Holder, Life

HEARTBEAT_S = 5.0
BEATS_UNTIL_DEAD = 6
"""A silent holder on another host is watched for so many of its own heartbeats."""
TOKEN_VARIABLE = "UNBROKEN_LEASE_TOKEN"
"""In the environment of everything a holder started, so that its orphans can be told."""
_KEPT = 8
"""Old numbers that stay: a slow process must never succeed in creating a number that was there already."""
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


def _numbers(folder: Path) -> list[int]:
    """The numbers there, ascending."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.json"


def _look(folder: Path, number: int) -> tuple[Holder | None, tuple[int, bytes]]:
    """The holder (None where torn) and what changes with every beat. Opening asks the file server again."""
    with open(_file(folder, number), "rb") as file:
        content = file.read()
        return Holder.parse(content), (os.fstat(file.fileno()).st_mtime_ns, content)


def holder(paths: RunPaths, ask_slurm: AskSlurm | None = None) -> Holder | None:
    """Who holds the directory now; None where nobody does, or its process is known to be gone. Writes nothing."""
    for number in reversed(_numbers(paths.leases)):
        try:
            found, _ = _look(paths.leases, number)
        except FileNotFoundError:
            continue
        if found is None or found.released or found.life(ask_slurm=ask_slurm) is Life.DEAD:
            return None
        return found
    return None


def last_beat(paths: RunPaths) -> tuple[Holder, object] | None:
    """The newest holder, released or not, and what changes with each of its beats; None where nobody can be read."""
    try:
        found, beat = _look(paths.leases, _numbers(paths.leases)[-1])
    except (OSError, IndexError):
        return None
    return None if found is None else (found, beat)


def kill_leftovers(token: str) -> list[int]:
    """SIGKILL every process on this machine that the holder with ``token`` had started; returns their ids."""
    mark = f"{TOKEN_VARIABLE}={token}".encode()
    killed = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                os.kill(int(name), signal.SIGKILL)
                killed.append(int(name))
    return killed


@dataclass
class Lease:
    """The lease that this process holds."""

    folder: Path
    mine: Holder
    taken_from: Holder | None = None
    """The holder that was found dead, when there was one."""
    leftovers: list[int] = field(default_factory=list)
    """Its orphaned processes, killed."""

    @property
    def file(self) -> Path:
        return _file(self.folder, self.mine.number)

    def beat(self) -> bool:
        """Show a sign of life. False when the lease is lost: kill the trainer at once, touch nothing more.

        Raises OSError when the file system does not answer; that is no loss yet.
        """
        if not self.is_mine():
            return False
        os.utime(self.file)
        return True

    def is_mine(self) -> bool:
        """Whether no other process has taken over, and nobody has removed the file."""
        if any(number > self.mine.number for number in _numbers(self.folder)):
            return False
        try:
            found, _ = _look(self.folder, self.mine.number)
        except FileNotFoundError:
            return False
        return found is None or found.token == self.mine.token

    def release(self) -> None:
        """Mark it as released; the file stays, so that its number is never used twice."""
        if self.is_mine():
            write_atomic(self.file, replace(self.mine, released=True).dump(), durable=False)


@dataclass
class _Asker:
    """One attempt to take the lease."""

    folder: Path
    me: Holder
    ask_slurm: AskSlurm | None
    sleep: Callable[[float], None]

    def judge(self, number: int) -> Holder | None:
        """Returns the dead or superseded holder of ``number``, None where it is released; raises LeaseHeld."""
        found, before = _look(self.folder, number)
        if found is None:  # torn: its writer may still live
            if self._stays(number, before, HEARTBEAT_S * BEATS_UNTIL_DEAD):
                return None
            raise LeaseHeld(f"{_file(self.folder, number)} cannot be read but changes: somebody holds it")
        if found.released:
            return None
        life = found.life(self.me.slurm_job_id, self.me.restart_count, self.ask_slurm)
        if life is Life.ALIVE:
            raise LeaseHeld(f"the run directory is held by {found}")
        silent = found.heartbeat_s * BEATS_UNTIL_DEAD
        if life is Life.SUPERSEDED and found.on_this_machine:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(found.pid, signal.SIGTERM)  # it saves, and does not requeue: the job is requeued already
            self._stays(number, before, silent, until_gone=found)
        elif life is Life.UNKNOWN and not self._stays(number, before, silent):
            raise LeaseHeld(f"the run directory is held by {found}")
        return found

    def _stays(self, number: int, before: tuple[int, bytes], seconds: float, until_gone: Holder | None = None) -> bool:
        """Watch a lease for ``seconds`` of our own clock; False as soon as it beats, is released or succeeded."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.sleep(min(0.2, seconds / 10))
            if until_gone is not None:
                if until_gone.life() is Life.DEAD:
                    return True
                now, _ = _look(self.folder, number)
                if now is not None and now.released:
                    return True
                continue
            if _numbers(self.folder)[-1:] != [number] or _look(self.folder, number)[1] != before:
                return False
        return True

    def create(self, number: int) -> Holder | None:
        """Create lease ``number`` with its content in one step; None when another process was first."""
        mine = replace(self.me, number=number)
        target = _file(self.folder, number)
        beside = self.folder / f".{mine.token}.tmp"
        try:
            write_atomic(beside, mine.dump(), durable=False)
            try:
                os.link(beside, target)
            except FileExistsError:
                if os.stat(beside).st_nlink != 2:  # 2: it was made, and the file server's answer got lost
                    return None
            except OSError as error:
                if error.errno not in _NO_LINKS or not self._create_exclusively(target, mine.dump()):
                    return None if error.errno in _NO_LINKS else self._fail(error)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()
        return mine if _numbers(self.folder)[-1:] == [number] else None

    @staticmethod
    def _fail(error: OSError) -> None:
        raise error

    @staticmethod
    def _create_exclusively(target: Path, content: bytes) -> bool:
        try:
            descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        with open(descriptor, "wb") as file:
            file.write(content)
        return True


def acquire(
    paths: RunPaths,
    job_id: str | None = None,
    restart_count: int = 0,
    ask_slurm: AskSlurm | None = None,
    heartbeat_s: float = HEARTBEAT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Lease:
    """Take the lease of a run directory, from nobody or from a dead holder.

    A holder on another host that neither Slurm nor its heartbeat declares alive costs a wait of its
    ``heartbeat_s`` times BEATS_UNTIL_DEAD.

    Raises:
        LeaseHeld: a live process holds it; the message says which.
        OSError: the directory cannot be written.
    """
    folder = paths.leases
    folder.mkdir(parents=True, exist_ok=True)
    me = Holder.me(os.urandom(16).hex(), utc_now(), heartbeat_s, job_id, restart_count)
    asker = _Asker(folder, me, ask_slurm, sleep)
    while True:
        numbers = _numbers(folder)
        try:
            before = asker.judge(numbers[-1]) if numbers else None
        except FileNotFoundError:
            continue
        mine = asker.create(numbers[-1] + 1 if numbers else 1)
        if mine is None:
            continue
        lease = Lease(folder, mine, before)
        if before is not None:
            _fence(lease, before, sleep)
        for number in numbers[:-_KEPT]:
            with contextlib.suppress(OSError):
                _file(folder, number).unlink()
        return lease


def _fence(lease: Lease, before: Holder, sleep: Callable[[float], None]) -> None:
    """Make sure that nothing of the former holder trains on."""
    if before.on_this_machine:
        lease.leftovers = kill_leftovers(before.token)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if before.life() is Life.ALIVE:
                os.kill(before.pid, signal.SIGKILL)
    elif before.slurm_job_id == lease.mine.slurm_job_id and before.restart_count < lease.mine.restart_count:
        sleep(before.heartbeat_s * 3)  # if it lives on a lost node, it finds our number and kills its trainer

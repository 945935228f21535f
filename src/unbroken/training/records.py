"""What a trainer writes about itself: run_status.json and events.jsonl, with or without a launcher above it."""

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from unbroken import exit_codes
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import UnbrokenError
from unbroken.run_dir import lease as leases
from unbroken.run_dir.events import append_event
from unbroken.run_dir.files import utc_now
from unbroken.run_dir.status import read_status, update_status
from unbroken.training.progress import say


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """A full disk must not hide the message that says so."""
    try:
        yield
    except (OSError, UnbrokenError) as error:
        say(f"not recorded: {error}")


@dataclass
class Records:
    """One attempt's records. The launcher, where there is one, counts attempts and judges the end; else we do."""

    paths: RunPaths
    attempt: int
    launched: bool
    silent: bool = False
    """For the ranks that do not write."""
    _lease: leases.Lease | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, paths: RunPaths, silent: bool = False) -> "Records":
        """The attempt's number is the launcher's (UNBROKEN_ATTEMPT), or the next one."""
        given = os.environ.get("UNBROKEN_ATTEMPT", "")
        if given.isdigit():
            return cls(paths, int(given), True, silent)
        return cls(paths, read_status(paths).attempt + 1, False, silent)

    def acquire(self) -> None:
        """By hand: hold the lease, as a launcher would; one trainer a run directory.

        Raises:
            LeaseHeld: another live trainer has it; says who.
        """
        if not self.launched and not self.silent:
            self._lease = leases.acquire(self.paths)
            threading.Thread(target=self._beat, args=(self._lease,), daemon=True).start()

    def _beat(self, lease: leases.Lease) -> None:
        while not self._over.wait(leases.HEARTBEAT_S):
            with contextlib.suppress(OSError):
                if not lease.beat():  # another process took us for dead: touch nothing more
                    os._exit(exit_codes.LEASE_HELD)

    def release(self) -> None:
        """Let the lease go, if there is one."""
        self._over.set()
        if self._lease is not None:
            with _quietly():
                self._lease.release()
            self._lease = None

    def event(self, name: str, **details: Any) -> None:
        if not self.silent:
            with _quietly():
                append_event(self.paths, name, self.attempt, **details)

    def status(self, durable: bool = False, **changes: Any) -> None:
        if not self.silent:
            with _quietly():
                update_status(self.paths, durable=durable, **changes)

    def started(self) -> None:
        if self.launched or self.silent:
            return
        self.event("run_started", pid=os.getpid())
        self.status(
            status="running", reason=None, attempt=self.attempt, last_signal=None, exit_code=None,
            host=os.uname().nodename, pid=os.getpid(), started_at=utc_now(),
        )  # fmt: skip

    def stopped(self, signal_name: str, step: int, saved: bool) -> None:
        """A graceful shutdown: the one event, and by hand the new state."""
        self.event("graceful_shutdown", signal=signal_name, global_step=step, saved=saved)
        what = f"saved at step {step}" if saved else "before there was anything new to save"
        changes: dict[str, Any] = {"last_signal": signal_name}
        if saved:
            changes["global_step"] = step
        if not self.launched and not self.silent:
            with _quietly():
                changes |= {"resubmit_count": read_status(self.paths).resubmit_count + 1}
            changes |= {"status": "preempted", "reason": f"{signal_name}, {what}", "pid": None}
            changes |= {"exit_code": exit_codes.RESUMABLE}
        self.status(durable=True, **changes)

    def completed(self, step: int) -> None:
        self.status(global_step=step)
        if not self.launched:
            self.status(durable=True, status="completed", reason=None, exit_code=exit_codes.COMPLETED, pid=None)
            self.event("run_completed", global_step=step)

    def failed(self, error: BaseException) -> None:
        if self.launched:
            return
        code = getattr(error, "exit_code", exit_codes.FAILED)
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        self.status(durable=True, status="failed", reason=reason, exit_code=code, pid=None)
        self.event("run_failed", reason=reason)

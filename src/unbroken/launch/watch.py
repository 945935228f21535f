"""Watch over a started trainer until nothing of it is left: forward signals, reap, fence."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from unbroken import exit_codes
from unbroken.launch import signals, trainer
from unbroken.launch.say import say
from unbroken.run_dir.lease import Lease

LINGER_S = 5.0
"""So long the rest of the trainer's processes may live on after its end."""
WRAPPER_S = 600.0
"""So long a process may go on saving whose parent, a shell, died of the forwarded signal."""
UNKILLABLE_S = 10.0
STUBBORN_S = 30.0


@dataclass
class Watched:
    """What was seen of one attempt."""

    exit_code: int = 0
    forwarded: list[signal.Signals] = field(default_factory=list)
    descendant_resumable: bool = False
    fenced: bool = False
    """The lease was taken over; the trainer has been killed and nothing may be written any more."""
    stopped_ahead: bool = False
    save_s: float | None = None
    """From the first forwarded signal to the trainer's end, seconds."""
    killed: int = 0
    """Processes that had to be ended after the trainer."""


class Heartbeat(threading.Thread):
    """Beats in a thread of its own: a file system that hangs must not delay a signal."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(daemon=True)
        self._lease = lease
        self._stop = threading.Event()
        self.lost = False

    def run(self) -> None:
        while not self._stop.wait(self._lease.mine.heartbeat_s):
            try:
                self.lost = not self._lease.beat()
            except OSError:
                continue  # no answer from the file system: neither lost nor seen
            if self.lost:
                signals.wake()
                return

    def stop(self) -> None:
        self._stop.set()


class Watch:
    """The main loop of one attempt."""

    def __init__(
        self, leader: int, heartbeat: Heartbeat, ahead: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._leader = leader
        self._heartbeat = heartbeat
        self._ahead = ahead
        """When (on ``clock``) to stop the trainer ourselves, ahead of the time limit; None: never."""
        self._clock = clock
        self._next = 0
        self._first_signal: float | None = None
        self._leader_ended = False
        self._said_stubborn = False
        self.seen = Watched()

    def until_gone(self) -> Watched:
        """Returns when the trainer and everything below it have ended and been reaped."""
        while not self._leader_ended:
            self._turn()
            if self._reap() and not self._leader_ended:
                signals.wait(self._patience())
        if self._first_signal is not None:
            self.seen.save_s = self._clock() - self._first_signal
        self._wait_for_the_rest()
        return self.seen

    def _turn(self) -> None:
        """Forward what has arrived, and look at the lease and the time limit."""
        for number in signals.arrived[self._next :]:
            self._next += 1
            self._forward(number)
        if self._heartbeat.lost and not self.seen.fenced:
            self.seen.fenced = True
            trainer.kill_everything(self._leader)
            say("another process has taken over the run directory: the trainer was killed at once")
        if self._ahead is not None and self._clock() >= self._ahead:
            self._ahead = None
            if not self.seen.forwarded:
                self.seen.stopped_ahead = True
                say("the job's time limit is near and no signal came: stopping the trainer now")
                self._forward(signal.SIGTERM)
        late = self._first_signal is not None and self._clock() > self._first_signal + STUBBORN_S
        if late and not self._said_stubborn:
            self._said_stubborn = True
            say(f"the trainer has not stopped within {STUBBORN_S:g} s; `kill -9 {self._leader}` would end it")

    def _forward(self, number: signal.Signals) -> None:
        if number in self.seen.forwarded:
            return
        self.seen.forwarded.append(number)
        if self._first_signal is None:
            self._first_signal = self._clock()
        trainer.signal_all(self._leader, number)
        say(f"{number.name} passed on to the trainer")

    def _patience(self) -> float | None:
        """Seconds until the next thing to do without being woken."""
        due = [] if self._ahead is None else [self._ahead]
        if self._first_signal is not None and not self._said_stubborn:
            due.append(self._first_signal + STUBBORN_S)
        return min(due) - self._clock() if due else None

    def _reap(self) -> bool:
        """Take in what has ended; whether any child is left."""
        while ended := trainer.reap():
            for pid, code in ended.items():
                if pid == self._leader:
                    self._leader_ended = True
                    self.seen.exit_code = code
                elif code == exit_codes.RESUMABLE:
                    self.seen.descendant_resumable = True
        return ended is not None

    def _died_of_forwarded(self) -> bool:
        """The leader, as a shell does, ended by the signal itself: what it waited for may still be saving."""
        codes = {code for number in self.seen.forwarded for code in (-number, 128 + number)}
        return self.seen.exit_code in codes

    def _wait_for_the_rest(self) -> None:
        wrapper = self._died_of_forwarded()
        end = self._clock() + (WRAPPER_S if wrapper else LINGER_S)
        while self._reap():
            if self.seen.descendant_resumable and wrapper:
                wrapper = False
                end = min(end, self._clock() + LINGER_S)
            left = end - self._clock()
            if left <= 0 or self.seen.fenced:
                self._kill_the_rest()
                return
            signals.wait(left if wrapper else min(left, 0.5))
            self._turn()

    def _kill_the_rest(self) -> None:
        rest = trainer.descendants()
        self.seen.killed = len(rest)
        end = self._clock() + UNKILLABLE_S
        while self._reap() and self._clock() < end:
            trainer.kill_everything(self._leader)
            signals.wait(0.05)
        if rest and not self.seen.fenced:
            say(f"ended {len(rest)} processes that the trainer had left behind: {sorted(rest)}")
        if os.path.isdir("/proc") and (stuck := trainer.descendants()):
            say(f"these processes do not even end by SIGKILL (a file system that hangs?): {sorted(stuck)}")

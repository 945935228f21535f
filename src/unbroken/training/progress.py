"""What a person sees while a run trains: a bar on a terminal, stamped whole lines in a log."""

import sys
import time
from datetime import datetime


def say(text: str) -> None:
    """One stamped line, visible at once."""
    stamp = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    print(f"{stamp} {text}", flush=True)


class Progress:
    """Steps done and to do. Nothing of it reaches a result."""

    WIDTH = 30
    LINE_EVERY_S = 10.0
    BAR_EVERY_S = 0.1

    def __init__(self, total: int, step: int, quiet: bool = False) -> None:
        self.total, self.quiet = total, quiet
        self.terminal = sys.stdout.isatty()
        self._first_step, self._began = step, time.monotonic()
        self._shown = 0.0

    def show(self, step: int, epoch: int, loss: float | None, force: bool = False) -> None:
        """Show the state, unless the last time was a moment ago."""
        if self.quiet:
            return
        now = time.monotonic()
        if not force and now - self._shown < (self.BAR_EVERY_S if self.terminal else self.LINE_EVERY_S):
            return
        self._shown = now
        rate = (step - self._first_step) / max(now - self._began, 1e-9)
        left = f", {(self.total - step) / rate:.0f} s left" if rate > 0 and step < self.total else ""
        shown_loss = "" if loss is None else f" loss {loss:.5g}"
        text = f"step {step}/{self.total} epoch {epoch}{shown_loss} ({rate:.4g} steps/s{left})"
        if self.terminal:
            done = self.WIDTH * step // max(self.total, 1)
            print(f"\r[{'#' * done}{'.' * (self.WIDTH - done)}] {text}\x1b[K", end="", flush=True)
        else:
            say(text)

    def done(self) -> None:
        """Leave the bar's line."""
        if self.terminal and not self.quiet:
            print(flush=True)

"""One fault in a run directory of its own: interrupted, gone on to the end, compared with the undisturbed run."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from unbroken.collection.run_dir import RunPaths
from unbroken.drill.attempt import Attempt
from unbroken.drill.compare import Difference, differences, load
from unbroken.drill.disk import Disk
from unbroken.drill.gauge import Gauge
from unbroken.drill.points import Point, Scale
from unbroken.drill.subject import Subject
from unbroken.errors import UnbrokenError
from unbroken.launch.evidence import Progress
from unbroken.run_dir.events import read_events
from unbroken.run_dir.status import read_status

MOST_ATTEMPTS = 6
_SLACK_NS = 20_000_000
"""A file's modification time comes from a clock that ticks every few milliseconds."""

Verdict = Literal["pass", "fail", "noted"]


class Trouble(Exception):
    """The case has failed, whatever the bits are. ``advice``: what to do."""

    def __init__(self, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.advice = advice


class Noted(Exception):
    """Something to know that the contract does not forbid."""


@dataclass(frozen=True)
class Whole:
    """The undisturbed run."""

    paths: RunPaths
    scale: Scale
    training_s: float
    """From its first sign of progress to its result, seconds."""
    in_place: bool
    last_bytes: int
    run_bytes: int


@dataclass(frozen=True)
class Patience:
    """How long what may take."""

    grace_s: float = 60.0
    """From a signal to the trainer's end."""
    attempt_s: float = 3600.0
    """One attempt."""


@dataclass
class Outcome:
    """How one case ended."""

    fault: str
    at: str
    verdict: Verdict = "pass"
    happened: str = ""
    lost: str = ""
    problem: str = ""
    advice: str = ""
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    attempts: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Case:
    """The tools that the faults work with."""

    def __init__(
        self, subject: Subject, whole: Whole, fault: str, point: Point, home: Path, patience: Patience,
        environment: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.subject, self.whole, self.fault, self.point = subject, whole, fault, point
        self.home, self.patience = home, patience
        self.paths = RunPaths(home / "run")
        self.happened: list[str] = []
        self.lost = ""
        self.disk: Disk | None = None
        self._environment = environment
        self._signal_ns = 0
        self._seen_step: int | None = None
        self.resumed_attempt = 2
        """Number of the first attempt after the interruption."""

    def fresh(self) -> None:
        """An empty run directory."""
        shutil.rmtree(self.paths.root, ignore_errors=True)
        self.happened.clear()

    @contextlib.contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """One start of the launcher."""
        with (
            Gauge(self.paths) as gauge,
            Attempt(self.subject, self.paths, gauge, self.home, self._environment) as attempt,
        ):
            yield attempt

    def reach(self, attempt: Attempt, point: Point, saved: bool = False) -> bool:
        """Wait until the attempt has come to ``point``; False if it ended before. ``saved``: and has a checkpoint.

        Raises:
            Trouble: it ended by itself with something else than 0.
        """
        unit_s = self.whole.scale.seconds / (self.whole.scale.saves + 1)
        since: float | None = None
        while (code := attempt.poll()) is None:
            gauge = attempt.gauge
            if point.unit == "step":
                there = (gauge.step or 0) >= max(point.value, gauge.first_step + 1)
            elif point.unit == "save":
                since = attempt.seconds if since is None and gauge.saves >= int(point.value) else since
                there = since is not None and attempt.seconds - since >= (point.value % 1) * unit_s
            else:
                there = attempt.seconds >= point.value * self.whole.scale.seconds
            if there and (gauge.saves or not saved) and not self.paths.result.exists():
                return True
            if attempt.seconds > self.patience.attempt_s:
                raise Trouble(f"did not come to {point} within {self.patience.attempt_s:.0f} s")
        if code != 0:
            raise Trouble(f"failed by itself before the interruption: {self.reason()}")
        return False

    def about_to_interrupt(self, attempt: Attempt) -> None:
        """Remember where it stands."""
        attempt.gauge.look()
        self._signal_ns = time.time_ns()

    def trained_on_s(self) -> float | None:
        """Seconds from the interruption to the result; None where there is no result."""
        try:
            return (self.paths.result.stat().st_mtime_ns - self._signal_ns) / 1e9
        except OSError:
            return None

    def interrupted(self, attempt: Attempt) -> None:
        """Take down what is lost, now that the attempt has ended."""
        attempt.gauge.look()
        self._seen_step = attempt.gauge.step
        step = self.saved_step()
        if self._seen_step is not None and step is not None:
            self.lost = steps_text(self._seen_step - step)
            return
        try:
            saved_ns = self.paths.last.stat().st_mtime_ns
        except OSError:
            self.lost = f"all, {attempt.seconds:.1f} s"
            return
        lost_ns = self._signal_ns - saved_ns
        self.lost = "nothing" if lost_ns <= _SLACK_NS else f"{lost_ns / 1e9:.2f} s of work"

    def saved_step(self) -> int | None:
        """The step that last.pt stands at; 0 where there is none, None where nothing tells."""
        if not self.paths.last.is_file():
            return 0
        step = Progress.of(self.paths).step
        if step is not None:
            return step
        try:
            payload = load(self.paths.last)
        except Exception:
            return None
        keys = ("global_step", "step", "steps") if isinstance(payload, dict) else ()
        return next((payload[key] for key in keys if type(payload.get(key)) is int), None)

    def reason(self) -> str:
        """Why the newest attempt ended, as the launcher says."""
        with contextlib.suppress(UnbrokenError):
            return read_status(self.paths).reason or "no reason known"
        return "run_status.json is torn"

    def to_the_end(self) -> None:
        """Start again until it is finished.

        Raises:
            Trouble: it hangs, crashes, or does not finish.
        """
        self.resumed_attempt = self.attempts() + 1
        for number in range(MOST_ATTEMPTS):
            with self.attempt() as attempt:
                code = attempt.wait(self.patience.attempt_s)
                if number == 0:
                    self._say_resumed()
                if code == 0:
                    return
                if code is None:
                    raise Trouble(f"the resumed attempt did not end within {self.patience.attempt_s:.0f} s")
                if code != 42:
                    raise Trouble(f"the resumed attempt failed ({code}): {self.reason()}")
        raise Trouble(f"it did not finish in {MOST_ATTEMPTS} attempts: {self.reason()}")

    def _say_resumed(self) -> None:
        events = [event for event in read_events(self.paths) if event.get("event") == "resumed"]
        if events and type(events[-1].get("global_step")) is int:
            step = events[-1]["global_step"]
            self.happened.append(f"went on at step {step}")
            if self._seen_step is not None:
                self.lost = steps_text(self._seen_step - step)

    def compare(self) -> tuple[list[Difference], list[str]]:
        """With the undisturbed run."""
        return differences(self.whole.paths, self.paths)

    def attempts(self) -> int:
        """How many logs there are."""
        return len(list(self.paths.logs.glob("attempt_*.log")))

    def close(self) -> None:
        if self.disk is not None:
            self.disk.close()


def steps_text(steps: int) -> str:
    """How much has to be trained again."""
    if steps <= 0:
        return "nothing"
    return "1 step" if steps == 1 else f"{steps} steps"

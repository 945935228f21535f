"""The whole drill: the undisturbed run, the faults, and, where bits differ, a look for the first thing that did."""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.drill import traces
from unbroken.drill.attempt import STOP, Attempt
from unbroken.drill.case import Case, Noted, Outcome, Patience, Trouble, Whole
from unbroken.drill.compare import differences
from unbroken.drill.disk import folder_bytes
from unbroken.drill.faults import FAULTS, WITHOUT_POINT
from unbroken.drill.findings import Finding, excuse, findings, not_deterministic
from unbroken.drill.gauge import Gauge
from unbroken.drill.points import Point, Scale
from unbroken.drill.subject import Subject
from unbroken.drill.tracing import VARIABLE
from unbroken.errors import UnbrokenError
from unbroken.launch.say import last_lines
from unbroken.run_dir.status import read_status

ATTEMPT_S = 24 * 3600.0
"""The undisturbed run may take so long; the others ten times as long as it did, and a minute."""
_LOOKS = 3
"""So often the diagnosis interrupts a run until it sees the fault."""


@dataclass(frozen=True)
class Plan:
    """What to do to the run."""

    faults: Sequence[str]
    at: Sequence[int] = ()
    """Steps, each for every fault."""
    random: int = 1
    """Further random places for every fault."""
    seed: int = 0
    grace_s: float = 60.0
    jobs: int = 1
    """So many faults at a time."""


@dataclass
class Report:
    """How a drill ended."""

    subject: Subject
    whole: Whole
    outcomes: list[Outcome]
    findings: list[Finding] = field(default_factory=list)
    traced: bool = False
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.findings and all(outcome.verdict != "fail" for outcome in self.outcomes)

    def as_json(self) -> dict[str, Any]:
        scale = self.whole.scale
        return {
            "run": self.subject.name,
            "label": self.subject.label,
            "passed": self.passed,
            "undisturbed": {
                "unit": scale.unit, "steps": scale.steps, "saves": scale.saves, "seconds": round(scale.seconds, 3)
            },
            "faults": [outcome.as_json() for outcome in self.outcomes],
            "findings": [{"part": item.part, "text": item.text, "advice": item.advice} for item in self.findings],
            "seconds": round(self.seconds, 3),
        }  # fmt: skip


class Drill:
    """One subject, one scratch folder."""

    def __init__(
        self, subject: Subject, plan: Plan, scratch: Path, keep: bool = False, tell: Callable[[str], None] = print
    ) -> None:
        self.subject, self.plan, self.scratch, self.keep, self.tell = subject, plan, scratch, keep, tell

    def run(self) -> Report:
        """All of it.

        Raises:
            UnbrokenError: the undisturbed run itself does not finish, or a step asked for is not in it.
        """
        began = time.monotonic()
        STOP.clear()
        whole = self._undisturbed(self.scratch / "undisturbed")
        self.tell(f"undisturbed: {whole.scale}")
        patience = Patience(self.plan.grace_s, 60 + 10 * whole.scale.seconds)
        with ThreadPoolExecutor(self.plan.jobs) as pool:
            try:
                outcomes = list(pool.map(lambda case: self._tried(case, whole, patience), self._cases(whole)))
            except BaseException:
                STOP.set()
                pool.shutdown(cancel_futures=True)
                raise
        report = Report(self.subject, whole, outcomes)
        if any(outcome.verdict == "fail" and outcome.differences for outcome in outcomes):
            self.tell("bits differ: looking for the first thing that did, in two more runs")
            self._diagnose(report, patience)
        else:
            report.findings = findings(outcomes, [], whole.in_place)
        report.seconds = time.monotonic() - began
        return report

    def _tried(self, case: tuple[str, Point], whole: Whole, patience: Patience) -> Outcome:
        fault, point = case
        outcome, _ = self._one(fault, point, whole, patience)
        self.tell(f"{fault} at {outcome.at}: {outcome.verdict} ({outcome.seconds:.1f} s)")
        return outcome

    def _undisturbed(self, home: Path, environment: dict[str, str] | None = None) -> Whole:
        paths = RunPaths(home / "run")
        steps: set[int] = set()
        first_ns = 0
        with Gauge(paths) as gauge, Attempt(self.subject, paths, gauge, home, environment) as attempt:
            while (code := attempt.poll()) is None:
                if gauge.step is not None:
                    steps.add(gauge.step)
                if not first_ns and (gauge.step is not None or gauge.saves):
                    first_ns = time.time_ns()
                if attempt.seconds > ATTEMPT_S:
                    raise UnbrokenError(
                        f"the undisturbed run did not end within {ATTEMPT_S:.0f} s: shorten it by --set"
                    )
            seconds = attempt.seconds
            gauge.look()
        if code != 0:
            raise UnbrokenError(_undisturbed_failed(paths, code, self.subject, attempt.said()))
        last = paths.last.stat().st_size if paths.last.is_file() else 0
        scale = Scale.of(gauge, steps, seconds)
        training_s = (paths.result.stat().st_mtime_ns - first_ns) / 1e9 if first_ns else seconds
        return Whole(paths, scale, training_s, gauge.in_place, last, folder_bytes(paths.root))

    def _cases(self, whole: Whole) -> Iterator[tuple[str, Point]]:
        chosen = whole.scale.chosen(list(self.plan.at))
        source = random.Random(self.plan.seed)
        for fault in self.plan.faults:
            points = [*chosen, *(whole.scale.random(source) for _ in range(self.plan.random))]
            yield from ((fault, point) for point in (points[:1] if fault in WITHOUT_POINT else points))

    @contextmanager
    def _home(self, name: str) -> Iterator[Path]:
        home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))
        try:
            yield home
        finally:
            if not self.keep:
                shutil.rmtree(home, ignore_errors=True)

    def _one(
        self, fault: str, point: Point, whole: Whole, patience: Patience, environment: dict[str, str] | None = None
    ) -> tuple[Outcome, int]:
        """The outcome of one case, and the number of its first attempt after the interruption."""
        outcome = Outcome(fault, "the start" if fault in WITHOUT_POINT else str(point))
        began = time.monotonic()
        if fault == "FULL_DISK":  # Python keeps a .pyc that was written short, and no later start gets past it
            environment = {**(environment or {}), "PYTHONDONTWRITEBYTECODE": "1"}
        with self._home(fault.lower()) as home:
            case = Case(self.subject, whole, fault, point, home, patience, environment)
            try:
                FAULTS[fault](case)
                outcome.differences, outcome.notes = case.compare()
            except Trouble as trouble:
                outcome.problem, outcome.advice = str(trouble), trouble.advice
            except Noted as note:
                outcome.verdict = "noted"
                case.happened.append(str(note))
            finally:
                outcome.attempts = case.attempts()
                if self.keep and case.disk is not None:
                    shutil.copytree(case.paths.root, home / "run", dirs_exist_ok=True)
                case.close()
        if outcome.problem or outcome.differences:
            outcome.verdict = "fail"
        outcome.happened, outcome.lost = "; ".join(case.happened), case.lost
        outcome.seconds = time.monotonic() - began
        return outcome, case.resumed_attempt

    def _diagnose(self, report: Report, patience: Patience) -> None:
        """Two more runs that write down what every optimizer step starts from: undisturbed, and interrupted."""
        hook = traces.prepare(self.scratch)
        path = os.pathsep.join([str(hook), *filter(None, [os.environ.get("PYTHONPATH")])])
        folders = [self.scratch / "trace" / name for name in ("undisturbed", "interrupted")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        variables = [{"PYTHONPATH": path, VARIABLE: str(folder)} for folder in folders]
        again = self._undisturbed(self.scratch / "again", variables[0])
        repeated, _ = differences(report.whole.paths, again.paths)
        report.outcomes = excuse(report.outcomes, repeated)
        unstable = not_deterministic(repeated)
        causes = []
        failed = [outcome for outcome in report.outcomes if outcome.verdict == "fail" and outcome.differences]
        if failed and unstable is None:
            causes = self._causes(failed[0], report, patience, folders, variables[1])
        report.findings = findings(report.outcomes, causes, report.whole.in_place)
        if unstable is not None:
            report.findings.insert(0, unstable)
        report.traced = bool(causes)

    def _causes(
        self, failed: Outcome, report: Report, patience: Patience, folders: list[Path], environment: dict[str, str]
    ) -> list[traces.Cause]:
        fault = "KILL" if failed.fault in ("FULL_DISK", *WITHOUT_POINT) else failed.fault
        point = next(point for name, point in self._cases(report.whole) if name == failed.fault and _is(failed, point))
        whole = traces.read(folders[0], 1)
        source = random.Random(self.plan.seed)
        for _ in range(_LOOKS if whole else 0):
            for old in folders[1].iterdir():
                old.unlink()
            outcome, resumed = self._one(fault, point, report.whole, patience, environment)
            for attempt in range(resumed, outcome.attempts + 1):
                if cause := traces.first_cause(whole, traces.read(folders[1], attempt), attempt > 1):
                    return [cause]
            point = report.whole.scale.random(source)  # a fault may not show at the end of an epoch, for example
        return []


def _is(outcome: Outcome, point: Point) -> bool:
    return outcome.fault in WITHOUT_POINT or outcome.at == str(point)


def _undisturbed_failed(paths: RunPaths, code: int, subject: Subject, said: str) -> str:
    log = paths.attempt_log(1)
    lines = [f"  | {line}" for line in last_lines(log)] or [f"  | {line}" for line in said.splitlines()[-5:]]
    reason = f": {status.reason}" if (status := read_status(paths)).reason else ""
    start = f"{subject.name}: the undisturbed run did not finish ({code}{reason}), so nothing can be compared with it:"
    return "\n".join([start, *lines, "Mend that first."])

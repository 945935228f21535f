"""What `why` reasons over, and what it answers: Evidence in, Verdict out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unbroken.run_dir.status import RunStatus
from unbroken.slurm.accounting_rows import AccountingRow
from unbroken.slurm.exit_status import is_out_of_memory
from unbroken.slurm.states import full_name

Kind = Literal[
    "completed",
    "running",
    "pending",
    "held",
    "bad_partition",
    "preempted",
    "cancelled",
    "time_limit",
    "out_of_memory",
    "node_failure",
    "launch_failure",
    "crash",
    "killed",
    "no_result",
    "gave_up",
    "identity_mismatch",
    "lease_held",
    "never_started",
    "lost",
    "unknown",
]
"""How a run stands, for programs. ``unknown`` is an honest answer too: the evidence is shown."""

_OOM_TEXT = re.compile(r"oom.?kill|killed by the cgroup out-of-memory handler|exceeded .*memory limit", re.IGNORECASE)
_GPU_OOM_TEXT = re.compile(r"CUDA out of memory|HIP out of memory|OutOfMemoryError: CUDA|CUBLAS_STATUS_ALLOC_FAILED")
_DISK_TEXT = re.compile(r"No space left on device|Disk quota exceeded|no space \(|the quota is used up")
_NOT_THE_TRAINER = ("unbroken: ", "srun: ", "slurmstepd")
_STAMP = re.compile(r"^\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?\s*")
_EXCEPTION = re.compile(r"^(?:\[[^\]]*\]:?\s*)?([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b(?::.*)?)$")


@dataclass(frozen=True)
class Verdict:
    """One answer to "why": a kind for programs, a sentence and a fix for people."""

    kind: Kind
    sentence: str
    evidence: tuple[str, ...] = ()
    fix: str = ""

    def about(self, name: str) -> str:
        """The sentence for where the name of the run stands already."""
        return self.sentence.removeprefix(f"{name}: ")

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "sentence": self.sentence, "evidence": list(self.evidence), "fix": self.fix}


@dataclass(frozen=True)
class Evidence:
    """Everything that is known about one run, or about one Slurm job that belongs to no known run."""

    name: str
    """How the run (or the job) is called in sentences: ``demo/3f2a/0`` or ``job 36``."""
    command: str = ""
    """What a person types to train it (again): ``snakemake --profile slurm demo``; empty for a job alone."""
    status: RunStatus | None = None
    """None when there is no run directory, or for a job alone."""
    events: Sequence[Mapping[str, Any]] = ()
    has_result: bool = False
    has_checkpoint: bool = False
    identity_problem: str | None = None
    """Why the directory belongs to another setting, when it does."""
    lease: str | None = None
    """Who holds the directory now, in words; None when nobody known to live does."""
    job_id: str | None = None
    """The newest job of the run, or the job asked about."""
    job: Mapping[str, str] | None = None
    """``scontrol show job`` of it; None when the controller has forgotten it, or was not asked."""
    controller_answered: bool = True
    """Without that, ``job`` is None for another reason than that Slurm has forgotten it."""
    requeue_wait_s: int | None = None
    """So long this cluster lets a requeued job wait; None where that is not known, or no matter."""
    rows: Sequence[AccountingRow] = ()
    """sacct, all jobs of the run, every requeue."""
    log: str | None = None
    """Path of the newest attempt's log."""
    log_tail: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    """What could not be asked, and why: stays visible in the verdict."""

    @property
    def about_run(self) -> bool:
        return bool(self.command)

    @property
    def state(self) -> str:
        """State of the newest job, in full, from the controller or else from accounting; empty when unknown."""
        if self.job:
            return full_name(self.job.get("JobState", ""))
        last = self.last_row
        return full_name(last.state) if last and not self.forgotten else ""

    @property
    def forgotten(self) -> bool:
        """The controller has lost the job (it died), and accounting does not know how it ended, or that it has."""
        last = self.last_row
        return last is not None and not last.tells_the_end and self.job is None and self.controller_answered

    @property
    def newest_rows(self) -> list[AccountingRow]:
        """The rows of the newest attempt of the newest job that has started (a waiting requeue has no steps yet)."""
        mine = [row for row in self.rows if self.job_id in {row.raw_id, row.job_id}]
        restarts = [row.restart for row in mine if row.started or row.state not in {"PENDING", "REQUEUED"}]
        newest = max(restarts, default=0)
        return [row for row in mine if row.restart == newest]

    @property
    def last_row(self) -> AccountingRow | None:
        """The newest parent row."""
        mine = [row for row in self.rows if self.job_id in {row.raw_id, row.job_id} and not row.step]
        return mine[-1] if mine else None

    @property
    def steps(self) -> list[AccountingRow]:
        """The srun steps of the newest attempt: where the launcher's own exit code is kept."""
        return [row for row in self.newest_rows if row.step not in {"", "batch", "extern"}]

    @property
    def launcher_code(self) -> int | None:
        """Exit code of the launcher as Slurm has it: of its step, else of the job; None where nothing has ended."""
        for row in [*self.steps, *[row for row in self.newest_rows if row.step in {"batch", ""}]]:
            if row.exit_code:
                return row.exit_code
        if self.job and ":" in self.job.get("ExitCode", ""):
            return int(self.job["ExitCode"].split(":")[0]) or None
        return None

    @property
    def preempted_by_slurm(self) -> bool:
        return bool(self.job) and (self.job or {}).get("PreemptTime", "None") not in {"None", "Unknown", "N/A", ""}

    def out_of_memory(self) -> str | None:
        """What proves that memory ran out, or None. SIGKILL alone proves nothing."""
        for row in self.newest_rows:
            if row.state == "OUT_OF_MEMORY" or is_out_of_memory(row.exit_code, row.signal):
                where = f"step {row.step}" if row.step else "the job"
                return f"{where} of job {row.raw_id} is {row.state} {row.exit_code}:{row.signal}"
        found = next((line for line in reversed(self.log_tail.splitlines()) if _OOM_TEXT.search(line)), None)
        return f"the log says: {found.strip()[:200]}" if found else None

    def gpu_out_of_memory(self) -> bool:
        return bool(_GPU_OOM_TEXT.search(self.log_tail))

    def disk_full(self) -> str | None:
        """The error of a full disk, which may have kept it out of the log but not out of run_status.json; else None."""
        reason = (self.status.reason if self.status else None) or ""
        told = (re.sub(r"^crashed with exit code -?\d+: ", "", reason), self.exception() or "")
        return next((text for text in told if _DISK_TEXT.search(text)), None)

    def exception(self) -> str | None:
        """The last line of the log that names an exception, else its last line, else None."""
        lines = [_STAMP.sub("", line).strip() for line in self.log_tail.splitlines()]
        lines = [line for line in lines if line and not line.startswith(_NOT_THE_TRAINER)]
        named = next((match[1] for line in reversed(lines) if (match := _EXCEPTION.match(line))), None)
        return (named or (lines[-1] if lines else None) or "")[:300] or None

    def launcher_said(self) -> str:
        """The launcher's own lines at the end of the log, as one line; empty where it wrote none."""
        lines = [
            line.removeprefix("unbroken: ") for line in self.log_tail.splitlines() if line.startswith("unbroken: ")
        ]
        return "; ".join(line.strip() for line in lines[-6:])[:500]

    def last_event(self, *names: str) -> Mapping[str, Any] | None:
        """The newest event, or the newest of these names."""
        return next((event for event in reversed(self.events) if not names or event.get("event") in names), None)

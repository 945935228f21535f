"""One attempt of one run, with the lease in hand."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unbroken import exit_codes
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import UnbrokenError
from unbroken.launch import admission, grace, signals, slurm_view, trainer
from unbroken.launch.evidence import Memory, Progress, reads_as_json
from unbroken.launch.policy import Decision, End, decide
from unbroken.launch.say import log_to, say
from unbroken.launch.spec import Spec
from unbroken.launch.tee import Tee
from unbroken.launch.watch import Heartbeat, Watch, Watched
from unbroken.run_dir import lease as leases
from unbroken.run_dir.events import append_event, read_events
from unbroken.run_dir.files import utc_now, write_atomic
from unbroken.run_dir.status import RunStatus, keep_spare, update_status
from unbroken.snapshot.record import AttemptCode


def quietly(action: Callable[[], object]) -> None:
    """Do something that a full or vanished disk may forbid; say so and go on."""
    try:
        action()
    except (OSError, UnbrokenError) as error:
        say(f"not recorded: {error}")


@dataclass
class Attempt:
    """One attempt, with the lease in hand."""

    paths: RunPaths
    spec: Spec
    argv: list[str]
    job: slurm_view.Job | None
    lease: leases.Lease
    number: int = 0
    fenced: bool = False
    tee: Tee | None = None

    def run(self) -> tuple[int, Decision | None]:
        """The launcher's exit code, and the decision where an attempt was made."""
        paths, spec = self.paths, self.spec
        known = admission.check_identity(paths, spec)
        status = admission.load_status(paths)
        call_id = os.environ.get("UNBROKEN_CALL_ID") or None
        if known and status.status == "completed" and admission.is_finished(paths, status, call_id):
            say(f"{spec.name} is finished already")
            return exit_codes.COMPLETED, None
        status = self._judge_lost(status)
        admission.refuse_failed(paths, spec, status, call_id)
        admission.write_config(paths, spec)
        log = self._open_log(status)
        log_to(log)
        self._say_taken_over()
        status = self._record_start(status, call_id)
        before, memory = Progress.of(paths), Memory()
        try:
            watched = self._train(log)
        except UnbrokenError as error:
            say(str(error))
            self._record(Decision("failed", str(error), exit_codes.FAILED, "crash"), None, {})
            return exit_codes.FAILED, None
        if watched is not None and watched.fenced:
            self.fenced = True
            return exit_codes.LEASE_HELD, None
        return self._judge(status, watched, before, memory)

    def _judge_lost(self, status: RunStatus) -> RunStatus:
        """An attempt that left "running" behind ended without a word: count it, so that it cannot repeat for ever."""
        if status.status != "running":
            return status
        memory = False
        if self.job is not None and status.slurm_job_id not in (None, self.job.id):
            memory = (slurm_view.ask(str(status.slurm_job_id)) or {}).get("JobState") == "OUT_OF_MEMORY"
        progressed = Progress.of(self.paths).beyond(self._recorded_progress(status))
        decision = decide(End(None, progressed=progressed, out_of_memory=memory), status, self.spec.limits)
        say(f"attempt {status.attempt}: {decision.reason.removeprefix('the attempt ')}")
        return update_status(self.paths, **admission.status_changes(decision, None))

    def _recorded_progress(self, status: RunStatus) -> Progress:
        """Where the newest attempt began, as its run_started tells."""
        for event in read_events(self.paths):
            if event.get("event") == "run_started" and event.get("attempt") == status.attempt:
                return Progress.parse(event.get("progress"))
        return Progress(None, None)

    def _open_log(self, status: RunStatus) -> int:
        """Create the next attempt's log; no attempt overwrites another, whatever the status says."""
        self.paths.logs.mkdir(parents=True, exist_ok=True)
        self.number = status.attempt
        while True:
            self.number += 1
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            try:
                return os.open(self.paths.attempt_log(self.number), flags, 0o644)
            except FileExistsError:
                continue

    def _say_taken_over(self) -> None:
        if self.lease.taken_from is None:
            return
        say(f"took the run directory over from {self.lease.taken_from}, which is gone")
        if self.lease.leftovers:
            say(f"ended the processes that it had left behind: {self.lease.leftovers}")
        append_event(self.paths, "lease_taken_over", self.number, holder=str(self.lease.taken_from))

    def _record_start(self, status: RunStatus, call_id: str | None) -> RunStatus:
        job = self.job
        asked = (job.mem_mb if job else None) or self.spec.resources.get("mem_mb")
        details = {"slurm_job_id": job.id if job else None, "progress": Progress.of(self.paths).dump()}
        append_event(self.paths, "run_started", self.number, **details, argv=self.argv)
        keep_spare(self.paths)
        return update_status(
            self.paths,
            status="running",
            reason=None,
            failure=None,
            attempt=self.number,
            last_signal=None,
            exit_code=None,
            host=os.uname().nodename,
            pid=os.getpid(),
            slurm_job_id=job.id if job else None,
            restart_count=job.restart_count if job else 0,
            call_id=call_id,
            mem_mb_asked=asked if isinstance(asked, int) else None,
            started_at=utc_now(),
        )

    def _train(self, log: int) -> Watched | None:
        """Start the trainer and watch it to its end; None when a signal came before there was one."""
        if signals.arrived:
            say(f"{signals.arrived[0].name} arrived before the trainer was started")
            return None
        self.tee = tee = Tee(log)
        code = AttemptCode(self.paths, self.spec.operational, self.argv, self.number)
        pinned = code.enter()
        environment = trainer.trainer_environment(
            {
                "UNBROKEN_RUN_DIR": str(self.paths.root),
                "UNBROKEN_CONFIG": str(self.paths.config),
                "UNBROKEN_SEED": str(self.spec.seed),
                "UNBROKEN_ATTEMPT": str(self.number),
                leases.TOKEN_VARIABLE: self.lease.mine.token,
                **pinned,
            }
        )
        leader = trainer.start(self.argv, environment, tee.write_end)
        code.record()
        tee.start()
        heartbeat = Heartbeat(self.lease)
        heartbeat.start()
        watched = Watch(leader, heartbeat, self._ahead()).until_gone()
        tee.finish()
        code.finish()
        heartbeat.stop()
        return watched

    @property
    def _margin_s(self) -> float:
        """Seconds before the time limit at which the launcher stops a trainer that got no signal."""
        given = self.spec.operational.get("time_limit_margin")
        if given is not None:
            return float(given)
        return 0.75 * slurm_view.warning_lead_s(self.spec.resources)

    def _ahead(self) -> float | None:
        """When to stop the trainer ourselves; never with a margin of 0."""
        left = self.job.left_s if self.job else None
        if left is None or self._margin_s <= 0 or not self.spec.operational.get("grace_guard", True):
            return None
        return time.monotonic() + max(left - self._margin_s, 0.5 * left)

    def _judge(
        self, status: RunStatus, watched: Watched | None, before: Progress, memory: Memory
    ) -> tuple[int, Decision | None]:
        paths = self.paths
        now = Progress.of(paths)
        current = _status_or(paths, status)
        progressed = now.beyond(before) or current.global_step > status.global_step
        seen = watched or Watched(forwarded=signals.arrived[:1])
        by_sigkill = seen.exit_code in (-9, 137)
        out_of_memory = memory.killed(paths.attempt_log(self.number), current.mem_mb_asked, by_sigkill)
        end = End(
            exit_code=seen.exit_code,
            started=watched is not None,
            has_result=paths.result.is_file(),
            result_is_whole=seen.exit_code != 0 and reads_as_json(paths.result),
            signals=tuple(number.name for number in seen.forwarded),
            out_of_memory=out_of_memory and seen.exit_code != 0,
            mem_mb_asked=current.mem_mb_asked,
            mem_mb_used=memory.used_mb(whole_job=out_of_memory),
            progressed=progressed,
            shutdown_recorded=self._shutdown_recorded(),
            descendant_resumable=seen.descendant_resumable,
            behind_agent=self.spec.behind_agent,
            last_line=self.tee.last_line(paths.attempt_log(self.number)) if self.tee else "",
            stopped_ahead=seen.stopped_ahead,
        )
        lead = max(slurm_view.warning_lead_s(self.spec.resources), self._margin_s)
        view = None if end.exit_code == 0 and end.has_result else slurm_view.view(self.job, lead)
        decision = decide(end, status, self.spec.limits, view)
        extra: dict[str, Any] = {"mem_mb_used": end.mem_mb_used}
        if now.step is not None:
            extra["global_step"] = max(now.step, current.global_step)
        if seen.forwarded:
            extra["last_signal"] = seen.forwarded[0].name
        self._record(decision, seen.exit_code if watched else None, extra)
        job = self.job
        if seen.save_s is not None and job is not None and job.answered:
            asked = slurm_view.warning_lead_s(self.spec.resources)
            quietly(lambda: grace.check(paths, self.number, seen.save_s, asked, job.partition))
        if decision.exit_code == exit_codes.FAILED:
            say(admission.failure_message(paths, self.spec, decision.reason, self.number))
        else:
            say(f"{self.spec.name}: {decision.status}: {decision.reason}")
        return decision.exit_code, decision

    def _shutdown_recorded(self) -> bool:
        try:
            mine = (event for event in read_events(self.paths) if event.get("attempt") == self.number)
            return any(event.get("event") == "graceful_shutdown" for event in mine)
        except OSError:
            return False

    def _record(self, decision: Decision, exit_code: int | None, extra: dict[str, Any]) -> None:
        changes = {**admission.status_changes(decision, exit_code), **extra}
        quietly(lambda: update_status(self.paths, from_spare=True, **changes))
        quietly(lambda: self.paths.status_spare.unlink(missing_ok=True))
        if decision.status == "completed":
            quietly(lambda: write_atomic(self.paths.kept_result, self.paths.result.read_bytes()))
        event = {"completed": "run_completed", "failed": "run_failed"}.get(decision.status)
        if event:
            kind = {"failure": decision.failure} if decision.failure else {}
            quietly(lambda: append_event(self.paths, event, self.number, reason=decision.reason, **kind))


def _status_or(paths: RunPaths, fallback: RunStatus) -> RunStatus:
    """The status as the trainer left it; ``fallback`` when it tore it."""
    try:
        return admission.load_status(paths)
    except OSError:
        return fallback

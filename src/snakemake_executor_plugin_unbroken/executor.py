"""The executor: the stock plugin's submission, and a poll of our own that cannot forget a job."""

import asyncio
import re
import shlex
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_slurm import Executor as StockExecutor
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from snakemake_executor_plugin_unbroken.adoption import LiveJobs
from snakemake_executor_plugin_unbroken.interventions import Interventions, is_foreign
from snakemake_executor_plugin_unbroken.jobs import comment, job_name, label, other_holder, run_of
from snakemake_executor_plugin_unbroken.judging import RELEASES_LIMIT, Action, Evidence, Judgement, judge
from snakemake_executor_plugin_unbroken.queue import Queue, Seen, Watched
from unbroken.errors import SlurmError
from unbroken.slurm.reasons import explain
from unbroken.slurm.states import full_name, is_final
from unbroken.slurm.submission import advice, check_extra, is_transient

SUBMISSION_TRIES = 8
"""With the delays below: a controller away for about ten minutes is outlasted."""
FIRST_DELAY_S = 5.0
LONGEST_DELAY_S = 180.0


class Executor(StockExecutor):  # type: ignore[misc]
    """Submits as the stock plugin does; decides by the table in judging.py."""

    def __init__(self, workflow: Any, logger: Any) -> None:
        # Before super().__init__: it starts the polling thread.
        self._naming = threading.local()
        self._tries: dict[Any, int] = {}
        self._later: dict[Any, threading.Timer] = {}
        self._steps_at_submission: dict[Any, int] = {}
        self._stalls: dict[Any, int] = {}
        self._missed: dict[Any, int] = {}
        self._said_stuck: set[tuple[str, str]] = set()
        self._checking: list[SubmittedJobInfo] = []
        self._cancelled = False
        self._live_jobs = LiveJobs()
        self._queue = Queue(logger)
        self._interventions = Interventions(logger)
        super().__init__(workflow, logger)

    def __post_init__(self, test_mode: bool = False) -> None:
        if self.workflow.executor_settings.array_jobs:
            raise WorkflowError(
                "array jobs are refused: the accounting of array tasks mixes up their ids, so that one run would be "
                "taken for another (docs/decisions/0003); remove unbroken-array-jobs from the profile"
            )
        super().__post_init__(test_mode)

    @property
    def run_uuid(self) -> str:
        """The Slurm job name: which run it is, while one is submitted in this thread; else the workflow's id."""
        return getattr(self._naming, "job_name", None) or self._workflow_id

    @run_uuid.setter
    def run_uuid(self, value: str) -> None:
        self._workflow_id = value

    @property
    def _being_stopped(self) -> bool:
        """Snakemake got SIGTERM or Ctrl-C."""
        return self._cancelled or getattr(self.workflow.scheduler, "_user_kill", None) is not None

    # --- submission ---------------------------------------------------------------------------------------------

    def run_job(self, job: Any) -> None:
        """Submit the job, or go on with the live Slurm job that an earlier Snakemake left for the same run."""
        self._steps_at_submission[job] = run_of(job)[0].global_step
        try:
            check_extra(str(job.resources.get("slurm_extra") or ""))
            adopted = self._live_jobs.find(comment(job), Path(self.workflow.workdir_init))
        except SlurmError as error:
            self._report_job_error_threadsafe(SubmittedJobInfo(job), str(error))
            return
        if adopted is not None:
            self.logger.info(
                f"{label(job)}: Slurm job {adopted} of an earlier call is still there; waiting for it, "
                "not submitting a second one."
            )
            self._wait_for(job, adopted)
            return
        self._naming.job_name = job_name(label(job))
        try:
            super().run_job(job)
        finally:
            self._naming.job_name = None

    def format_job_exec(self, job: Any) -> str:
        """What the job runs: a rule that brings its own `srun` (mpi present and false) needs one Snakemake, not two."""
        call = str(super().format_job_exec(job))
        brings_srun = "mpi" in job.resources.keys() and not job.resources.get("mpi")  # noqa: SIM118
        return call.replace("--executor slurm-jobstep ", "") if brings_srun else call

    def _wait_for(self, job: Any, job_id: str, **aux: Any) -> None:
        """Watch a Slurm job that we have not submitted."""
        info = SubmittedJobInfo(job, external_jobid=job_id, aux={"slurm_logfile": None, **aux})
        self._report_job_submission_threadsafe(info)

    def get_account_arg(self, job: Any) -> Iterator[str]:
        """The account as it is written, or none: Slurm knows which are valid and which is the default.

        sacctmgr does not, on clusters where accounts stand for others or where users may not ask it.
        """
        named = re.split(r"[,\s]+", str(job.resources.get("slurm_account") or "").strip())[0]
        yield f" -A {shlex.quote(named)}" if named else ""

    def get_partition_arg(self, job: Any) -> str:
        """As for the account."""
        return str(super().get_partition_arg(job)) if job.resources.get("slurm_partition") or self._partitions else ""

    def _report_job_error_threadsafe(self, job_info: SubmittedJobInfo, msg: str) -> None:
        """A submission that Slurm could not take right now is tried again later, at no cost for the run.

        What it refuses for good is refused to the retries too: they are spent at once.
        """
        job = job_info.job
        tries = self._tries.get(job, 0)
        if not is_transient(msg):
            job.attempt = job.restart_times + 1
            msg = f"{label(job)}: Slurm does not take this job. What to change: {advice(msg)}.\n{msg}"
        elif self._being_stopped:
            job.attempt = job.restart_times + 1
        elif tries < SUBMISSION_TRIES:
            self._tries[job] = tries + 1
            delay = min(FIRST_DELAY_S * 2**tries, LONGEST_DELAY_S)
            self.logger.warning(f"{label(job)}: Slurm does not take submissions now; next try in {delay:.0f} s.")
            self._later[job] = timer = threading.Timer(delay, self._submit_again, [job])
            timer.daemon = True
            timer.start()
            return
        super()._report_job_error_threadsafe(job_info, msg)

    def _submit_again(self, job: Any) -> None:
        self._later.pop(job, None)
        try:
            self._job_submission_executor.submit(self.run_job, job)
        except RuntimeError:  # shut down meanwhile
            self.logger.debug(f"{label(job)}: not submitted again, Snakemake ends")

    def _report_job_submission_threadsafe(self, job_info: SubmittedJobInfo) -> None:
        self._tries.pop(job_info.job, None)
        super()._report_job_submission_threadsafe(job_info)

    # --- the end of Snakemake -----------------------------------------------------------------------------------

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Ctrl-C: cancel every job of this call, also those that are being polled or submitted at this moment."""
        self._cancelled = True
        for timer in list(self._later.values()):
            timer.cancel()
        self._job_submission_executor.shutdown(wait=True, cancel_futures=True)
        with self.lock:
            known = [*active_jobs, *self.active_jobs, *self._checking]
        ours = [info for info in known if info.external_jobid and not is_foreign(info)]
        super().cancel_jobs(list({info.external_jobid: info for info in ours}.values()))

    # --- polling ------------------------------------------------------------------------------------------------

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """One squeue for all jobs, sacct for those it does not know; yields what is still to be waited for."""
        if not active_jobs:
            return
        self._checking = active_jobs
        async with self.status_rate_limiter:
            states = await asyncio.to_thread(self._queue.states, [_watched(info) for info in active_jobs])
        for info in active_jobs:
            if states is None:  # Slurm did not answer: nothing is known, so nothing is decided
                yield info
                continue
            judgement = await asyncio.to_thread(self._judge, info, states.get(_watched(info)))
            if not self._carry_out(info, judgement):
                yield info

    def _judge(self, info: SubmittedJobInfo, seen: Seen | None) -> Judgement:
        state = seen.state if seen else None
        missed = self._missed.get(info.job, 0) + 1 if state is None else 0
        self._missed[info.job] = missed
        run, has_result = run_of(info.job)
        stalls = self._stalls.get(info.job, 0)
        if run.global_step > self._steps_at_submission.get(info.job, 0):
            stalls = 0
        held_by, holder_job = "", None
        if state is not None and is_final(state) and not has_result:
            try:
                held_by, holder_job = other_holder(info.job, info.external_jobid)
                if holder_job is not None and not self._queue.lives(holder_job):
                    held_by, holder_job = "", None
            except SlurmError:
                return Judgement(Action.WAIT)
        interventions = self._interventions
        known = Evidence(
            state=state,
            run=run,
            has_result=has_result,
            missed_polls=missed,
            stalled_resubmissions=stalls,
            pending_reason=seen.reason if seen else "",
            releases=RELEASES_LIMIT if is_foreign(info) else interventions.releases(info.job, run.global_step),
            silent_s=interventions.silent_s(info, state, seen.started if seen else ""),
            cancelled_by_us=interventions.was_cancelled(info),
            held_by=held_by,
            holder_job=holder_job,
            being_stopped=self._being_stopped,
            job_id=info.external_jobid,
        )
        judgement = judge(known)
        if seen and full_name(seen.state) == "PENDING" and judgement.action is Action.WAIT:
            self._say_stuck(info, seen.reason)
        return judgement

    def _say_stuck(self, info: SubmittedJobInfo, code: str) -> None:
        """Once per job and reason: it waits for something that time alone does not bring."""
        reason, job_id = explain(code), info.external_jobid
        if reason.kind != "waits" and (job_id, code) not in self._said_stuck:
            self._said_stuck.add((job_id, code))
            fix = reason.fix.replace("JOBID", job_id)
            self.logger.warning(f"{label(info.job)} (Slurm job {job_id}) waits because {reason.words} ({code}). {fix}")

    def _carry_out(self, info: SubmittedJobInfo, judgement: Judgement) -> bool:
        """Do what was decided; False while the job is still to be waited for."""
        message = f"{label(info.job)} (Slurm job {info.external_jobid}): {judgement.message}"
        match judgement.action:
            case Action.WAIT:
                return False
            case Action.RELEASE:
                self._interventions.release(info, message)
                return False
            case Action.CANCEL:
                self._interventions.cancel_silent(info, message)
                return False
            case Action.SUCCESS:
                self.report_job_success(info)
            case Action.DONE:
                if not self._interventions.take_away(info):
                    return False
                self.logger.info(message)
                self.report_job_success(info)
            case Action.RESUBMIT:
                self.logger.warning(message)
                self._count_stall(info.job)
                self._submit_again(info.job)
            case Action.ADOPT:
                self.logger.warning(message)
                self._wait_for(info.job, judgement.adopt, foreign=True)
            case Action.RETRY:
                self.report_job_error(info, msg=f"{message}. ")
            case Action.FAIL:
                # Snakemake compares the attempt with its retries: spent, so it does not start the run again.
                info.job.attempt = info.job.restart_times + 1
                self.report_job_error(info, msg=f"{message}. ")
        self._missed.pop(info.job, None)
        return True

    def _count_stall(self, job: Any) -> None:
        advanced = run_of(job)[0].global_step > self._steps_at_submission.get(job, 0)
        self._stalls[job] = 0 if advanced else self._stalls.get(job, 0) + 1


def _watched(info: SubmittedJobInfo) -> Watched:
    ours = () if is_foreign(info) else (comment(info.job), job_name(label(info.job)))
    return Watched(info.external_jobid, frozenset(ours))

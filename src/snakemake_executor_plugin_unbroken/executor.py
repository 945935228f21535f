"""The executor: the stock plugin's submission, and a poll of our own that cannot forget a job."""

import asyncio
import re
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_slurm import Executor as StockExecutor
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from snakemake_executor_plugin_unbroken.adoption import LiveJobs
from snakemake_executor_plugin_unbroken.judging import Action, Evidence, Judgement, judge
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import RunDirectoryError, SlurmError
from unbroken.run.status import RunStatus, read_status
from unbroken.slurm import client
from unbroken.slurm.submission import check_extra, is_transient

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
        self._steps_at_submission: dict[Any, int] = {}
        self._stalls: dict[Any, int] = {}
        self._missed: dict[str, int] = {}
        self._outage_since: float | None = None
        self._live_jobs = LiveJobs()
        super().__init__(workflow, logger)

    def __post_init__(self, test_mode: bool = False) -> None:
        if self.workflow.executor_settings.array_jobs:
            raise WorkflowError(
                "array jobs are refused: the accounting of array tasks mixes up their ids, so that one run would be "
                "taken for another (docs/decisions/0003); remove array-jobs from the profile"
            )
        super().__post_init__(test_mode)

    @property
    def run_uuid(self) -> str:
        """The Slurm job name: which run it is, while one is submitted in this thread; else the workflow's id."""
        return getattr(self._naming, "job_name", None) or self._workflow_id

    @run_uuid.setter
    def run_uuid(self, value: str) -> None:
        self._workflow_id = value

    # --- submission ---------------------------------------------------------------------------------------------

    def run_job(self, job: Any) -> None:
        """Submit the job, or go on with the live Slurm job that an earlier Snakemake left for the same run."""
        self._remember_step(job)
        try:
            check_extra(str(job.resources.get("slurm_extra") or ""))
            adopted = self._live_jobs.find(self._comment(job), Path(self.workflow.workdir_init))
        except SlurmError as error:
            self._report_job_error_threadsafe(SubmittedJobInfo(job), str(error))
            return
        if adopted is not None:
            self.logger.info(
                f"{_label(job)}: Slurm job {adopted} of an earlier call is still there; waiting for it, "
                "not submitting a second one."
            )
            info = SubmittedJobInfo(job, external_jobid=adopted, aux={"slurm_logfile": None})
            self._report_job_submission_threadsafe(info)
            return
        self._naming.job_name = job_name(_label(job))
        try:
            super().run_job(job)
        finally:
            self._naming.job_name = None

    def get_account_arg(self, job: Any) -> Iterator[str]:
        """Without an account of the user's choice none is named: Slurm knows the default, guessing does not."""
        if job.resources.get("slurm_account"):
            yield from super().get_account_arg(job)
        else:
            yield ""

    def get_partition_arg(self, job: Any) -> str:
        """As for the account."""
        return str(super().get_partition_arg(job)) if job.resources.get("slurm_partition") or self._partitions else ""

    def _report_job_error_threadsafe(self, job_info: SubmittedJobInfo, msg: str) -> None:
        """A submission that Slurm could not take right now is tried again later, at no cost for the run."""
        tries = self._tries.get(job_info.job, 0)
        if self._main_event_loop is None or not is_transient(msg) or tries >= SUBMISSION_TRIES:
            super()._report_job_error_threadsafe(job_info, msg)
            return
        self._tries[job_info.job] = tries + 1
        delay = min(FIRST_DELAY_S * 2**tries, LONGEST_DELAY_S)
        self.logger.warning(f"{_label(job_info.job)}: Slurm does not take submissions now; next try in {delay:.0f} s.")
        self._main_event_loop.call_soon_threadsafe(self._submit_later, job_info.job, delay)

    def _submit_later(self, job: Any, delay: float) -> None:
        asyncio.get_running_loop().call_later(delay, self._job_submission_executor.submit, self.run_job, job)

    def _comment(self, job: Any) -> str:
        """The comment that the stock plugin gives a job: rule and wildcards, so it names the run."""
        wildcards = "_".join(job.wildcards).replace("/", "_") if job.wildcards else ""
        return f"rule_{job.name}_wildcards_{wildcards}" if wildcards else f"rule_{job.name}"

    # --- polling ------------------------------------------------------------------------------------------------

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """One squeue for all jobs, sacct for those it does not know; yields what is still to be waited for."""
        if not active_jobs:
            return
        async with self.status_rate_limiter:
            states = await asyncio.to_thread(self._states, [info.external_jobid for info in active_jobs])
        for info in active_jobs:
            if states is None:  # Slurm did not answer: nothing is known, so nothing is decided
                yield info
                continue
            evidence = self._evidence(info, *states.get(info.external_jobid, (None, "")))
            if not self._carry_out(info, judge(evidence)):
                yield info

    def _states(self, job_ids: list[str]) -> dict[str, tuple[str, str]] | None:
        """State and pending reason by job id; None while Slurm does not answer."""
        try:
            found = {job.job_id: (job.state, job.reason) for job in client.queue(job_ids)}
        except SlurmError as error:
            self._say_outage(error)
            return None
        if self._outage_since is not None:
            self.logger.info(f"Slurm answers again, after {time.monotonic() - self._outage_since:.0f} s.")
            self._outage_since = None
        gone = [job_id for job_id in job_ids if job_id not in found]
        if gone:
            try:
                found.update(_accounted(gone))
            except SlurmError as error:
                # No accounting here, or it is away: the run directory tells how it ended.
                self.logger.debug(f"accounting: {error}")
        return found

    def _say_outage(self, error: SlurmError) -> None:
        if self._outage_since is None:
            self._outage_since = time.monotonic()
            self.logger.warning(f"Slurm does not answer; waiting, no job is given up. ({error})")

    def _evidence(self, info: SubmittedJobInfo, state: str | None, reason: str) -> Evidence:
        missed = self._missed.get(info.external_jobid, 0) + 1 if state is None else 0
        self._missed[info.external_jobid] = missed
        run, has_result = _run_of(info.job)
        stalls = self._stalls.get(info.job, 0)
        if run.global_step > self._steps_at_submission.get(info.job, 0):
            stalls = 0
        return Evidence(state, run, has_result, missed, stalls, reason)

    def _carry_out(self, info: SubmittedJobInfo, judgement: Judgement) -> bool:
        """Do what was decided; False while the job is still to be waited for."""
        message = f"{_label(info.job)} (Slurm job {info.external_jobid}): {judgement.message}"
        match judgement.action:
            case Action.WAIT:
                return False
            case Action.SUCCESS:
                self.report_job_success(info)
            case Action.RESUBMIT:
                self.logger.warning(message)
                self._count_stall(info.job)
                self._job_submission_executor.submit(self.run_job, info.job)
            case Action.RETRY:
                self.report_job_error(info, msg=message)
            case Action.FAIL:
                # Snakemake compares the attempt with its retries: spent, so it does not start the run again.
                info.job.attempt = info.job.restart_times + 1
                self.report_job_error(info, msg=message)
        self._missed.pop(info.external_jobid, None)
        return True

    def _remember_step(self, job: Any) -> None:
        self._steps_at_submission[job] = _run_of(job)[0].global_step

    def _count_stall(self, job: Any) -> None:
        advanced = _run_of(job)[0].global_step > self._steps_at_submission.get(job, 0)
        self._stalls[job] = 0 if advanced else self._stalls.get(job, 0) + 1


def _accounted(job_ids: list[str]) -> dict[str, tuple[str, str]]:
    """Final states, from accounting, of jobs that the controller has purged; the newest attempt of each."""
    return {row.job_id: (row.state, row.reason) for row in client.accounting(job_ids) if not row.step}


def _run_of(job: Any) -> tuple[RunStatus, bool]:
    """The status of the run that a job trains, and whether its result is there."""
    output = Path(str(job.output[0]))
    try:
        return read_status(RunPaths(output.parent)), output.exists()
    except RunDirectoryError:
        return RunStatus(), output.exists()


def _label(job: Any) -> str:
    params = getattr(job, "params", None)
    return str((params.get("label") if params else None) or job.name)


def job_name(label: str) -> str:
    """A job name that `squeue` shows: the run's label in safe characters, at most 64 of them."""
    return re.sub(r"[^A-Za-z0-9_.,=+/-]+", "_", label)[:64].strip("_") or "unbroken"

"""From the command line to the exit code: lease, attempt, release, requeue."""

import os
from pathlib import Path

from unbroken import exit_codes
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import UnbrokenError
from unbroken.launch import admission, slurm_view
from unbroken.launch.attempt import Attempt, quietly
from unbroken.launch.say import say
from unbroken.launch.spec import Spec, SpecError
from unbroken.run_dir import lease as leases
from unbroken.run_dir.events import append_event

USAGE = """usage: python -m unbroken.launch --run-dir DIR --spec JSON|@FILE

Starts one attempt of a run and judges its end. Exit codes: 0 finished, 1 failed, 2 wrong usage, 42 stopped and
resumable, 43 gave up, 44 the directory belongs to another run, 45 another live trainer holds it."""


def main(arguments: list[str]) -> int:
    """Run the launcher; a person's mistake is one message, never a traceback."""
    if "-h" in arguments or "--help" in arguments:
        print(USAGE)
        return exit_codes.COMPLETED
    paths = None
    try:
        paths, spec = _read(arguments)
        return _attempt(paths, spec)
    except UnbrokenError as error:
        say(str(error))
        return error.exit_code
    except OSError as error:
        # A failed write names no file: the run directory is where everything is written.
        where = error.filename or (paths.root if paths else "the launch spec")
        say(f"{where}: {error.strerror or error}; mend that, then start the run again")
        return exit_codes.FAILED


def _read(arguments: list[str]) -> tuple[RunPaths, Spec]:
    options: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in ("--run-dir", "--spec"):
            raise SpecError(f"unknown argument {word!r}\n{USAGE}")
        options[name] = value if equals else next(rest, "")
    if not options.get("--run-dir") or not options.get("--spec"):
        raise SpecError(f"--run-dir and --spec are needed\n{USAGE}")
    return RunPaths(Path(os.path.abspath(options["--run-dir"]))), Spec.read(options["--spec"])


def _attempt(paths: RunPaths, spec: Spec) -> int:
    """Everything from the lease to its release; the requeue comes after, since Slurm then ends this process."""
    admission.check_identity(paths, spec)
    argv = spec.argv(paths)
    job = slurm_view.own_job()
    beat_s = float(os.environ.get("UNBROKEN_HEARTBEAT_SECONDS") or leases.HEARTBEAT_S)
    job_id, restarts = (job.id, job.restart_count) if job else (None, 0)
    lease = leases.acquire(paths, job_id, restarts, slurm_view.ask if job and job.answered else None, beat_s)
    fenced = False
    try:
        attempt = Attempt(paths, spec, argv, job, lease)
        code, decision = attempt.run()
        fenced = attempt.fenced
    finally:
        if not fenced:
            quietly(lease.release)
    if decision is not None and decision.requeue and job is not None:
        _requeue(paths, job.id, attempt.number)
    return code


def _requeue(paths: RunPaths, job_id: str, number: int) -> None:
    from unbroken.errors import SlurmError
    from unbroken.slurm.client import requeue

    say(f"asking Slurm to requeue job {job_id}")
    quietly(lambda: append_event(paths, "requeued", number, slurm_job_id=job_id))
    try:
        requeue(job_id)
    except SlurmError as error:
        why = str(error)
        say(f"Slurm does not requeue job {job_id} ({why}); Snakemake's retries start the run again")
        quietly(lambda: append_event(paths, "requeue_refused", number, slurm_job_id=job_id, reason=why))

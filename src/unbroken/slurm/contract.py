"""Does this cluster keep what recovery needs? Line by line, with the fix; a pure function over its configuration."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Line:
    """One requirement: whether the cluster keeps it, and what to do where it does not."""

    grade: Grade
    what: str
    found: str
    fix: str = ""


def first_number(text: str) -> int | None:
    """``300 sec`` -> 300; None where there is none."""
    match = re.search(r"\d+", text)
    return int(match[0]) if match else None


def judge_cluster(
    config: Mapping[str, str],
    partitions: Sequence[Mapping[str, str]],
    *,
    accounting: str | None,
    poll_s: int = 15,
    save_s: float | None = None,
) -> list[Line]:
    """Every requirement of the recovery contract.

    Args:
        config: ``scontrol show config``.
        partitions: ``scontrol show partition``, one mapping each.
        accounting: why sacct does not answer; None when it does.
        poll_s: seconds between two status checks of the profile.
        save_s: the longest save seen so far, seconds; None when unknown.
    """
    lines = [
        Line("ok", "controller", f"answers here, Slurm {config.get('SLURM_VERSION', '?')}"),
        _requeue(config),
        _tracking(config),
        _kill_wait(config, save_s),
        *(_preemption(config, partition, save_s) for partition in partitions if partition.get("State", "UP") == "UP"),
        _min_job_age(config, poll_s),
        _requeue_delay(config),
        _accounting(config, accounting),
        _max_requeues(config),
    ]
    return lines


def _requeue(config: Mapping[str, str]) -> Line:
    if config.get("JobRequeue", "1") == "1":
        return Line("ok", "requeue", "JobRequeue=1: a stopped run goes back into the queue under its own job id")
    fix = "add --requeue to slurm_extra in profiles/slurm/config.yaml; else Snakemake's retries start it again"
    return Line("note", "requeue", "JobRequeue=0: jobs are not requeued unless they ask for it", fix)


def _tracking(config: Mapping[str, str]) -> Line:
    kind = config.get("ProctrackType", "")
    if kind == "proctrack/cgroup":
        return Line("ok", "process tracking", "proctrack/cgroup: signals reach a step's first process, our launcher")
    if kind in {"proctrack/linuxproc", "proctrack/pgid"}:
        found = f"{kind}: signals reach every process, so the trainer may get one twice (harmless)"
        return Line("note", "process tracking", found, "nothing; an orphaned process may outlive its job here")
    return Line("note", "process tracking", kind or "unknown", "try it: unbroken drill")


def _kill_wait(config: Mapping[str, str], save_s: float | None) -> Line:
    seconds = first_number(config.get("KillWait", "")) or 0
    found = f"KillWait={seconds} s from SIGTERM to SIGKILL at the time limit and at scancel"
    if save_s is not None and save_s >= seconds:
        fix = f"saves take {save_s:.0f} s: raise --signal=USR1@N in slurm_extra to more than {2 * save_s:.0f}"
        return Line("problem", "time to save at the end", found, fix)
    if seconds < 30:
        fix = "keep --signal=USR1@120 in slurm_extra: it warns earlier than this"
        return Line("note", "time to save at the end", found, fix)
    return Line("ok", "time to save at the end", found)


def _preemption(config: Mapping[str, str], partition: Mapping[str, str], save_s: float | None) -> Line:
    name = partition.get("PartitionName", "?")
    what = f"preemption in {name}"
    mode = partition.get("PreemptMode") or config.get("PreemptMode", "OFF")
    grace = first_number(partition.get("GraceTime", "")) or 0
    wait = first_number(config.get("KillWait", "")) or 0
    if config.get("PreemptType", "preempt/none") in {"preempt/none", "(null)"} or mode.startswith("OFF"):
        return Line("ok", what, "off: jobs of this partition are never preempted")
    given = max(grace, wait)
    found = f"PreemptMode={mode}, GraceTime={grace} s"
    if save_s is not None and save_s >= given:
        fix = f"saves take {save_s:.0f} s, {given} s are given: ask for GraceTime>{2 * save_s:.0f}, or save more often"
        return Line("problem", what, found, fix)
    if "CANCEL" in mode:
        fix = "nothing: the launcher requeues itself while Slurm ends the job"
        return Line("note", what, f"{found}: Slurm does not requeue by itself", fix)
    if "SUSPEND" in mode or "GANG" in mode:
        return Line("ok", what, f"{found}: jobs are suspended and go on")
    if grace == 0:
        return Line(
            "note", what, f"{found}: only KillWait ({wait} s) to save", "ask the administrators for GraceTime=120"
        )
    return Line("ok", what, found)


def _min_job_age(config: Mapping[str, str], poll_s: int) -> Line:
    age = first_number(config.get("MinJobAge", "")) or 0
    found = f"MinJobAge={age} s: so long an ended job is still shown"
    if age < 2 * poll_s:
        fix = f"set seconds-between-status-checks in the profile below {max(1, age // 2)}, or ask for MinJobAge=300"
        return Line("problem", "ended jobs stay visible", found, fix)
    return Line("ok", "ended jobs stay visible", found)


def _requeue_delay(config: Mapping[str, str]) -> Line:
    return Line("ok", "wait after a requeue", f"about {requeue_wait_s(config)} s (cred_expire), then the queue")


def requeue_wait_s(config: Mapping[str, str]) -> int:
    """So long a requeued job may not start: until its old credential has expired; 120 s is Slurm's default."""
    match = re.search(r"cred_expire=(\d+)", config.get("AuthInfo", ""))
    return (int(match[1]) if match else 120) + 1


def _accounting(config: Mapping[str, str], why_not: str | None) -> Line:
    kind = config.get("AccountingStorageType", "")
    if kind.endswith("none") or kind == "(null)":
        fix = "nothing for training; `unbroken metrics` and old jobs in `unbroken why` need slurmdbd"
        return Line("note", "accounting", "none: the status comes from squeue alone", fix)
    if why_not:
        return Line(
            "note", "accounting", f"does not answer now: {why_not}", "try again later; training does not need it"
        )
    gather = config.get("JobAcctGatherType", "")
    if gather.endswith("none"):
        return Line(
            "note", "accounting", "answers, but measures no memory (JobAcctGatherType=none)", "MaxRSS stays blank"
        )
    return Line("ok", "accounting", f"answers; {gather}")


def _max_requeues(config: Mapping[str, str]) -> Line:
    most = config.get("MaxBatchRequeue") or config.get("MAX_BATCH_REQUEUE") or "5"
    return Line("ok", "failed starts", f"held after {most} launches in a row that failed; `unbroken why` then says so")

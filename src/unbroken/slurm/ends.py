"""The end of a Slurm job, judged from the controller's and accounting's records alone."""

from dataclasses import replace
from signal import SIGKILL

from unbroken import exit_codes
from unbroken.slurm.exit_status import code_in_words, pair_in_words, signal_of
from unbroken.slurm.states import StateClass, classify, in_words
from unbroken.slurm.verdict import Evidence, Kind, Verdict

_REFUSED_BY_SLURM: dict[str, tuple[Kind, str, str]] = {
    "BOOT_FAIL": (
        "node_failure",
        "its node could not be booted",
        "Start it again; if it happens again, exclude the node.",
    ),
    "RECONFIG_FAIL": (
        "node_failure",
        "its node could not be reconfigured",
        "Start it again, or tell the administrators.",
    ),
    "LAUNCH_FAILED": (
        "launch_failure",
        "its first process could not be started",
        "Check the working directory on the node.",
    ),
    "DEADLINE": ("time_limit", "its deadline came before its end", "Give it a later deadline, or none."),
    "REVOKED": ("unknown", "another cluster of the federation has taken it", "Look for it there: squeue --federation."),
}

LOOK_WHO = "Look who did it (an administrator, a watchdog)"


def judge_end(evidence: Evidence) -> Verdict | None:
    """The verdict on a job that has ended; None while it waits or runs, or when Slurm knows nothing of it."""
    state = evidence.state
    found = classify(state) if state else StateClass.UNKNOWN
    if not state or found in {StateClass.PENDING, StateClass.RUNNING, StateClass.REQUEUED}:
        return None
    job = f"job {evidence.job_id}"
    if state in _REFUSED_BY_SLURM:
        kind, words, fix = _REFUSED_BY_SLURM[state]
        return Verdict(kind, f"{evidence.name}: {job} ended because {words}.", fix=fix)
    if state == "CANCELLED" or (found is StateClass.ENDING and _being_cancelled(evidence)):
        return _cancelled(evidence)
    if state == "NODE_FAIL":
        return node_failure(evidence)
    memory = evidence.out_of_memory()
    if memory or state == "OUT_OF_MEMORY":
        return out_of_memory(evidence, memory or f"{job} is OUT_OF_MEMORY")
    if state == "TIMEOUT":
        return time_limit(evidence, "it was killed at the limit")
    if state == "PREEMPTED":
        return preempted(evidence, "a job with precedence took its place")
    if found is StateClass.ENDING:
        return None
    if found is StateClass.OK:
        return _ended_well(evidence)
    if state == "FAILED":
        return _failed(evidence)
    return Verdict(
        "unknown", f"{evidence.name}: {job}: {in_words(state)}.", fix="Ask the administrators of the cluster."
    )


def _being_cancelled(evidence: Evidence) -> bool:
    row = evidence.last_row
    return bool(row and row.state == "CANCELLED")


def _cancelled(evidence: Evidence) -> Verdict:
    row = next((row for row in evidence.newest_rows if row.cancelled_by is not None), None)
    who = f"by user id {row.cancelled_by}" if row else "by a person"
    nodes = [(evidence.job or {}).get("NodeList", "(null)"), *(row.nodes for row in evidence.newest_rows)]
    when = "while it ran" if any(node not in {"", "(null)"} for node in nodes) else "before it started"
    return cancelled(evidence, f"job {evidence.job_id} was cancelled {who} {when}")


def cancelled(evidence: Evidence, what: str) -> Verdict:
    """Somebody wanted it to end: it stays so until somebody starts it again."""
    return Verdict(
        "cancelled",
        f"{evidence.name}: {what}; it is not started again by itself.{_saved(evidence)}",
        fix=again(evidence),
    )


def node_failure(evidence: Evidence) -> Verdict:
    row = next((row for row in evidence.newest_rows if row.nodes), None)
    node = f" ({row.nodes})" if row else ""
    whose = f"the node of job {evidence.job_id}" if evidence.about_run else "its node"
    sentence = f"{evidence.name}: {whose}{node} failed under it.{_saved(evidence)}"
    return Verdict("node_failure", sentence, fix=again(evidence))


def time_limit(evidence: Evidence, how: str) -> Verdict:
    limit = next((row.limit_s for row in evidence.newest_rows if row.limit_s), None)
    text = f" of {limit // 60} min" if limit else ""
    fix = again(evidence)
    if "killed" in how:
        fix = f"so that nothing is lost next time, let slurm_extra in profiles/slurm ask for --signal=USR1@120; {fix}"
    link = " " if how.startswith("(") else "; "
    sentence = f"{evidence.name}: it reached its time limit{text}{link}{how}.{_saved(evidence)}"
    return Verdict("time_limit", sentence, fix=fix)


def preempted(evidence: Evidence, how: str) -> Verdict:
    """``how`` is the launcher's reason, which often says by itself what happened, or Slurm's."""
    if how.startswith("stopped by itself"):
        how = f"it {how}"
    elif how.startswith(("stopped", "preempted")):
        how = f"it was {how}"
    elif not how.startswith("the attempt"):
        how = f"it was preempted: {how}"
    return Verdict("preempted", f"{evidence.name}: {how}.{_saved(evidence)}", fix=again(evidence))


def out_of_memory(evidence: Evidence, proof: str) -> Verdict:
    status = evidence.status
    asked = (status.mem_mb_asked if status else None) or _requested_mb(evidence)
    used = status.mem_mb_used if status else None
    amount = f" It had asked for {asked} MB" + (f" and used {used} MB." if used else ".") if asked else ""
    fix = "The next attempt asks for more by itself"
    fix += f" (or set resources.mem_mb to {int(asked * 1.5)} in the collection)" if asked else ""
    return Verdict(
        "out_of_memory",
        f"{evidence.name}: it ran out of memory and was killed.{amount}{_saved(evidence)}",
        evidence=(f"proof: {proof}",),
        fix=f"{fix}; {again(evidence)}" if evidence.about_run else f"{fix}.",
    )


def _requested_mb(evidence: Evidence) -> int | None:
    from unbroken.slurm.accounting_rows import parse_memory_mib

    texts = [row.requested_tres.get("mem", "") for row in evidence.newest_rows] + [
        row.requested_memory for row in evidence.newest_rows
    ]
    return next((int(found) for text in texts if (found := parse_memory_mib(text))), None)


def _ended_well(evidence: Evidence) -> Verdict:
    if not evidence.about_run:
        return Verdict("completed", f"{evidence.name} ended normally (exit code 0).")
    return no_result(evidence, f"job {evidence.job_id} ended with exit code 0")


def no_result(evidence: Evidence, what: str) -> Verdict:
    return Verdict(
        "no_result",
        f"{evidence.name}: {what}, and there is no result.json.",
        fix="The trainer must write result.json before it exits 0 (trainer contract, point 3); then " + again(evidence),
    )


def crash(evidence: Evidence, what: str) -> Verdict:
    """An error of the program: names the exception and the log."""
    exception, full = evidence.exception(), evidence.disk_full()
    if full:
        what, exception = "a disk is full", full
    if evidence.gpu_out_of_memory():
        what = "the memory of the GPU (not of the job) was too small"
    where = f" Its log: {evidence.log}" if evidence.log else ""
    said = f": {exception.rstrip('.')}" if exception else ""
    fix = f"Read {evidence.log}, mend the cause" if evidence.log else "Read its log, mend the cause"
    if full:
        fix = "Free some space there (df -h shows how full each disk is)"
    if exception and "marshal data too short" in exception:
        what = "Python had written one of its compiled files short, on a disk that was full then"
        fix = "Delete the __pycache__ folders of the code and of its environment"
    if evidence.gpu_out_of_memory():
        fix = "Lower the batch (with more gradient accumulation the effective batch stays), or ask for a larger GPU"
    return Verdict("crash", f"{evidence.name}: it crashed: {what}{said}.{where}", fix=f"{fix}; then {again(evidence)}")


def _failed(evidence: Evidence) -> Verdict:
    code = evidence.launcher_code
    steps = evidence.steps or evidence.newest_rows
    signal = next((row.signal for row in steps if row.signal), 0)
    if code == exit_codes.LEASE_HELD:
        return lease_held(evidence, evidence.launcher_said())
    if code == exit_codes.IDENTITY_MISMATCH:
        return identity_mismatch(evidence, evidence.launcher_said())
    if code == exit_codes.GAVE_UP:
        return gave_up(evidence, code_in_words(code))
    if code == exit_codes.RESUMABLE:
        row = evidence.last_row
        if row and row.limit_s and row.elapsed_s >= row.limit_s - 180 and not evidence.preempted_by_slurm:
            return time_limit(evidence, "it saved in time and ended with 42")
        return preempted(evidence, "it saved, ended with 42 and was not requeued")
    if (evidence.job or {}).get("Reason") == "JobLaunchFailure":
        return replace(crash(evidence, "its first process could not be started"), kind="launch_failure")
    if signal == SIGKILL or signal_of(code or 0) == SIGKILL:
        sentence = f"{evidence.name}: it was killed with SIGKILL, and not for its memory.{_saved(evidence)}"
        return Verdict("killed", sentence, fix=f"{LOOK_WHO}; {again(evidence)}")
    return crash(evidence, pair_in_words(code or 0, signal))


def gave_up(evidence: Evidence, what: str) -> Verdict:
    run = evidence.name if evidence.about_run else "RUN"
    fix = f"Find out why in the log, then: unbroken retry {run}; {again(evidence)}"
    return Verdict("gave_up", f"{evidence.name}: {what}.", fix=fix)


def lease_held(evidence: Evidence, said: str) -> Verdict:
    holder = evidence.lease or said.rpartition("held by ")[2]
    detail = f" ({holder.rstrip('.')})" if holder else ""
    return Verdict(
        "lease_held",
        f"{evidence.name}: it refused to start because another live trainer holds the run directory{detail}.",
        fix="Nothing to do: the other one trains the run. To stop that one instead, cancel its job.",
    )


def identity_mismatch(evidence: Evidence, said: str) -> Verdict:
    detail = f": {said}" if said else ""
    return Verdict(
        "identity_mismatch",
        f"{evidence.name}: the run directory belongs to another setting{detail}.",
        fix="Move the run directory away (nothing of it can be used for this setting), or restore its "
        "config_identity.json; then " + again(evidence),
    )


def again(evidence: Evidence) -> str:
    """The line that starts it again."""
    return f"start it again with: {evidence.command or 'snakemake --profile slurm'}"


def _saved(evidence: Evidence) -> str:
    status = evidence.status
    if status is None:
        return ""
    of = f" of {status.total_steps}" if status.total_steps else ""
    if status.global_step:
        return f" Saved up to step {status.global_step}{of}."
    return " A checkpoint is there." if evidence.has_checkpoint else " Nothing had been saved yet."

"""The verdict of `unbroken why`: a pure function from evidence to one sentence, its proofs and one fix."""

from dataclasses import replace

from unbroken.slurm import ends
from unbroken.slurm.exit_status import code_in_words, pair_in_words
from unbroken.slurm.reasons import explain
from unbroken.slurm.states import StateClass, classify
from unbroken.slurm.verdict import Evidence, Kind, Verdict

_HOLDING_STATES = {"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}


def diagnose(evidence: Evidence) -> Verdict:
    """Join everything that is known into one verdict. Reads no file and asks nobody.

    The order is: another setting's directory; a finished run is finished; what Slurm says of a waiting or running job;
    what the launcher wrote down about the last end, corrected by harder evidence of Slurm (memory, node, cancellation);
    Slurm alone; nothing at all.
    """
    for rule in (_identity, _completed, _waiting, _running, _written_down, _left_running, ends.judge_end, _unstarted):
        verdict = rule(evidence)
        if verdict is not None:
            sentence = _once(evidence.name, verdict.sentence)
            proofs = (*verdict.evidence, *_proofs(evidence))
            return replace(verdict, sentence=sentence, evidence=proofs, fix=_upper(verdict.fix))
    return replace(_lost(evidence), evidence=tuple(_proofs(evidence)))


def _once(name: str, sentence: str) -> str:
    """A job alone is named by what is often the first word of its sentence too."""
    return sentence.removeprefix(f"{name}: ") if sentence.startswith(f"{name}: {name}") else sentence


def _completed(evidence: Evidence) -> Verdict | None:
    if not evidence.has_result:
        return None
    status = evidence.status
    attempts = status.attempt if status else 0
    after = f" after {attempts} attempts" if attempts > 1 else ""
    steps = f", {status.total_steps} steps" if status and status.total_steps else ""
    lost = evidence.last_event("loss_not_finite")
    but = f" But its loss was {lost['loss']} at step {lost['global_step']}." if lost else ""
    return Verdict("completed", f"{evidence.name}: it is completed{after}{steps}; result.json is there.{but}")


def _identity(evidence: Evidence) -> Verdict | None:
    if evidence.identity_problem:
        return ends.identity_mismatch(evidence, evidence.identity_problem)
    last = evidence.last_event()
    if last and last.get("event") == "identity_refused":
        return ends.identity_mismatch(evidence, str(last.get("reason") or last.get("message") or ""))
    return None


def _waiting(evidence: Evidence) -> Verdict | None:
    state = evidence.state
    if not state or classify(state) not in {StateClass.PENDING, StateClass.REQUEUED}:
        return None
    if evidence.lease and not evidence.about_run:
        return None
    code = (evidence.job or {}).get("Reason") or (evidence.last_row.reason if evidence.last_row else "") or "None"
    reason = explain(code)
    kind: Kind = "pending"
    if reason.kind == "held" or state in _HOLDING_STATES:
        kind = "held"
    elif reason.kind == "partition":
        kind = "bad_partition"
    job = f"job {evidence.job_id}"
    partition = (evidence.job or {}).get("Partition") or (evidence.last_row.partition if evidence.last_row else "")
    verb = {"held": "is held", "bad_partition": f"cannot start in partition {partition!r}"}.get(
        kind, "waits in the queue"
    )
    sentence = f"{evidence.name}: {job} {verb} because {reason.words} ({reason.code})."
    if evidence.requeue_wait_s is not None:
        sentence += f" Here that is {evidence.requeue_wait_s} s after each requeue."
    status = evidence.status
    if status and status.status == "preempted":
        place = f"step {status.global_step}" if status.global_step else "its last checkpoint, if it saved one"
        sentence += f" Its last attempt ended: {status.reason}; it goes on from {place}."
    expected = (evidence.job or {}).get("StartTime", "")
    if kind == "pending" and expected[:1].isdigit():
        sentence += f" Slurm expects to start it at {expected}."
    return Verdict(kind, sentence, fix=reason.fix.replace("JOBID", str(evidence.job_id)))


def _running(evidence: Evidence) -> Verdict | None:
    state = evidence.state
    found = classify(state) if state else None
    ending = found is StateClass.ENDING
    if found is not StateClass.RUNNING and not ending and not (evidence.lease and (not state or evidence.about_run)):
        return None
    if ending and ends.judge_end(evidence) is not None:
        return None
    written = evidence.status.status if evidence.status else None
    if written in {"failed", "preempted"} and not evidence.lease and evidence.about_run and not ending:
        return _starting_again(evidence) if _requeued_since(evidence) else None
    status = evidence.status
    sentence = f"{evidence.name}: it is running"
    if evidence.job:
        which = f" as job {evidence.job_id}" if evidence.about_run else ""
        sentence += f"{which} on {evidence.job.get('NodeList', '?')}"
    if evidence.preempted_by_slurm:
        sentence += " and is being preempted now: it saves"
    elif ending:
        sentence += " and is ending now"
    elif state == "SUSPENDED":
        sentence += ", suspended by Slurm"
    if status and status.total_steps:
        sentence += f", {status.global_step} of {status.total_steps} steps saved"
    return Verdict("running", sentence + ".", fix="Nothing to do.")


def _requeued_since(evidence: Evidence) -> bool:
    """Slurm has started the job again since the launcher wrote; else the launcher's word is newer than Slurm's."""
    restarts = (evidence.job or {}).get("Restarts", "")
    return bool(evidence.status and restarts.isdigit() and int(restarts) > evidence.status.restart_count)


def _starting_again(evidence: Evidence) -> Verdict:
    return Verdict("running", f"{evidence.name}: job {evidence.job_id} is starting it again.", fix="Nothing to do.")


def _written_down(evidence: Evidence) -> Verdict | None:
    """The launcher's own word in run_status.json, where harder evidence does not overrule it."""
    status = evidence.status
    if status is None or status.status not in {"preempted", "failed", "completed"}:
        return None
    reason = (status.reason or "").rstrip(".")
    if status.status == "completed":
        return ends.no_result(evidence, "run_status.json says completed")
    if status.status == "preempted":
        return _interrupted(evidence, reason)
    kind = status.failure or _failure_from(reason)
    memory = evidence.out_of_memory() if kind in {"crash", "killed", "no_result"} else None
    if kind == "out_of_memory" or memory:
        return ends.out_of_memory(evidence, memory or evidence.out_of_memory() or reason)
    if kind in {"budget", "no_progress", "early_preemptions", "gave_up"}:
        return ends.gave_up(evidence, f"it gave up: {reason}")
    if kind == "no_result":
        return ends.no_result(evidence, "the trainer exited 0")
    if kind == "identity_mismatch":
        return ends.identity_mismatch(evidence, reason)
    if kind == "killed":
        sentence = f"{evidence.name}: the trainer was killed: {reason}."
        return Verdict("killed", sentence, fix=f"{ends.LOOK_WHO}; {ends.again(evidence)}")
    code = status.exit_code
    return ends.crash(evidence, "unknown exit code" if code is None else f"exit code {code}, {code_in_words(code)}")


def _interrupted(evidence: Evidence, reason: str) -> Verdict:
    by_slurm = ends.judge_end(evidence) if evidence.state else None
    if reason.startswith("cancelled") or (by_slurm and by_slurm.kind == "cancelled"):
        return ends.cancelled(
            evidence, f"it was {reason}" if reason.startswith("cancelled") else "its job was cancelled"
        )
    if "without a word" in reason and by_slurm and by_slurm.kind != "crash":
        return by_slurm
    if by_slurm and by_slurm.kind in {"node_failure", "out_of_memory"}:
        return by_slurm
    if reason.startswith("time limit") or (by_slurm and by_slurm.kind == "time_limit"):
        how = reason.removeprefix("time limit").strip()  # only the signal and what was saved
        return ends.time_limit(evidence, how or "it saved in time")
    return ends.preempted(evidence, reason or "it saved and ended with 42")


def _failure_from(reason: str) -> str:
    """The kind of failure, from the sentence of a launcher that did not write it down apart."""
    starts = {
        "out of memory": "out_of_memory",
        "ended without a result": "no_result",
        "budget": "budget",
        "no progress": "no_progress",
        "stopped": "early_preemptions",
    }
    return next((kind for start, kind in starts.items() if reason.startswith(start)), "crash")


def _left_running(evidence: Evidence) -> Verdict | None:
    """run_status.json says running, and nobody lives: the launcher was killed. Slurm knows how, or nobody does."""
    status = evidence.status
    if status is None or status.status != "running":
        return None
    by_slurm = ends.judge_end(evidence)
    if by_slurm is not None and by_slurm.kind not in {"crash", "no_result", "unknown"}:
        return by_slurm
    return _lost(evidence)


def _lost(evidence: Evidence) -> Verdict:
    if not evidence.about_run:
        if not evidence.controller_answered:
            sentence = f"{evidence.name}: it belongs to no run here, and Slurm could not be asked about it."
            return Verdict("unknown", sentence, fix="Ask where Slurm answers: on a login node of the cluster.")
        accounting = "and accounting does not say how it ended" if evidence.forgotten else "nor does accounting"
        sentence = f"{evidence.name}: Slurm's controller does not know this job (any more), {accounting}."
        return Verdict("unknown", sentence, fix="Check the number; squeue --me shows yours.")
    saved = (
        f" It goes on from step {evidence.status.global_step}."
        if evidence.status and evidence.status.global_step
        else ""
    )
    host = f" on {evidence.status.host}" if evidence.status and evidence.status.host else ""
    sentence = f"{evidence.name}: it is marked as running{host}, but neither its process nor its job is alive.{saved}"
    return Verdict("lost", sentence, fix=_upper(ends.again(evidence)))


def _unstarted(evidence: Evidence) -> Verdict | None:
    status = evidence.status
    if not evidence.about_run or (status is not None and (status.attempt or status.status != "pending")):
        return None
    return Verdict(
        "never_started", f"{evidence.name}: it has never been started.", fix=f"Start it with: {evidence.command}"
    )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _proofs(evidence: Evidence) -> list[str]:
    """What a person would otherwise look up: status, job, accounting, lease, warnings, what could not be asked."""
    lines = []
    status = evidence.status
    if status and status.attempt:
        code = (
            f", trainer exit code {status.exit_code} ({code_in_words(status.exit_code)})"
            if status.exit_code is not None
            else ""
        )
        lines.append(
            f"run_status.json: {status.status}, attempt {status.attempt}, step {status.global_step}, "
            f"{status.resubmit_count} resubmits, last signal {status.last_signal or 'none'}{code}"
        )
    if evidence.job:
        lines.append(
            f"controller: job {evidence.job_id} {evidence.state}, Reason={evidence.job.get('Reason')}, "
            f"Restarts={evidence.job.get('Restarts')}, PreemptTime={evidence.job.get('PreemptTime')}"
        )
    if evidence.forgotten:
        lines.append(f"controller: it has lost job {evidence.job_id}, as when it dies before it has saved its state")
    for row in evidence.rows:
        if row.step in {"extern", "batch"} and not row.signal:
            continue
        step = f".{row.step}" if row.step else ""
        ended = f", {pair_in_words(row.exit_code, row.signal)}" if row.ended and row.state != "COMPLETED" else ""
        again = f" (restart {row.restart})" if row.restart else ""
        lines.append(f"accounting: {row.raw_id}{step}{again} {row.state}, {row.elapsed_s} s{ended}")
    if evidence.lease:
        lines.append(f"lease: held by {evidence.lease}")
    warning = evidence.last_event("grace_warning")
    if warning:
        lines.append(f"grace: {warning.get('warning') or warning}")
    return [*lines, *(f"not known: {note}" for note in evidence.notes)]

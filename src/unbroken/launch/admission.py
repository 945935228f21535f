"""May this run be trained now? Identity, earlier failures, and what an attempt left that ended without a word."""

import os
from dataclasses import asdict
from typing import Any

from unbroken import exit_codes
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import IdentityMismatch, RunDirectoryError, UnbrokenError
from unbroken.launch.policy import OUT_OF_MEMORY_TRIES, Decision
from unbroken.launch.say import last_lines, say
from unbroken.launch.spec import Spec
from unbroken.run_dir.events import append_event
from unbroken.run_dir.files import read_json, utc_now, write_atomic, write_json
from unbroken.run_dir.status import RunStatus, read_status, update_status

_OF_IDENTITY = ("config_hash", "trainer", "seed", "collection")
RETRY_CHANGES: dict[str, Any] = {
    "status": "pending",
    "reason": "retry allowed by hand",
    "failure": None,
    "resubmit_count": 0,
    "early_preemptions": 0,
    "no_progress_count": 0,
    "out_of_memory_count": 0,
    "call_id": None,
}


class NotAgain(UnbrokenError):
    """The run has failed and is not trained again without somebody doing something."""


class GaveUp(NotAgain):
    """A limit of the collection is used up."""

    exit_code = exit_codes.GAVE_UP


def allow_retry(paths: RunPaths) -> RunStatus:
    """Clear a failed run's counters, so that the next start trains it again: ``unbroken retry``."""
    status = update_status(paths, **RETRY_CHANGES)
    append_event(paths, "retry_allowed", status.attempt)
    return status


def check_identity(paths: RunPaths, spec: Spec) -> bool:
    """Whether the directory already carries this run's identity; False where it has none yet. Writes nothing.

    Raises:
        IdentityMismatch: it belongs to another setting; the message lists every difference.
    """
    there = read_json(paths.identity)
    if there is None:
        return False
    if not isinstance(there, dict):
        raise RunDirectoryError(f"{paths.identity} does not hold a JSON object: move it away to go on without it")
    wanted = spec.identity
    if all(there.get(key) == wanted.get(key) for key in _OF_IDENTITY):
        return True
    from unbroken.collection.identity import diff

    changed = [(key, there.get(key), wanted.get(key)) for key in _OF_IDENTITY[1:] if there.get(key) != wanted.get(key)]
    changed += diff(_mapping(there.get("config")), _mapping(wanted.get("config")))
    lines = [f"  {key}: {old!r} -> {new!r}" for key, old, new in changed]
    lines = lines or [f"  config_hash: {there.get('config_hash')!r} -> {wanted.get('config_hash')!r}"]
    raise IdentityMismatch(
        f"{spec.name}: {paths.root} belongs to another run (its value -> the value asked for):\n"
        + "\n".join(lines)
        + "\nNothing was written. Ways out: restore the old values; or give the run another directory (another "
        "collection slug or runs folder); or move that directory away to train from the start."
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def write_config(paths: RunPaths, spec: Spec) -> None:
    """config.yaml if it changed, config_identity.json once; a legacy run's identity is left to the trainer."""
    text = spec.config_yaml.encode()
    try:
        same = paths.config.read_bytes() == text
    except FileNotFoundError:
        same = False
    if not same:
        write_atomic(paths.config, text)
    if not check_identity(paths, spec) and not paths.last.exists():
        write_json(paths.identity, spec.identity)


def is_finished(paths: RunPaths, status: RunStatus, call_id: str | None) -> bool:
    """Whether the result of a completed run is there, or can be put back.

    A job that Slurm requeues in the moment between the result and its end finds the result deleted: the Snakemake in
    it makes room for the outputs of what it starts. In the same call that is never meant as "train it again".
    """
    os.listdir(paths.root)  # a network file system looks again
    if paths.result.exists():
        return True
    if call_id is None or status.call_id != call_id or not paths.kept_result.exists():
        return False
    write_atomic(paths.result, paths.kept_result.read_bytes())
    return True


def load_status(paths: RunPaths) -> RunStatus:
    """run_status.json; a torn or foreign one is set aside, said, and replaced by what the logs still tell."""
    try:
        status = read_status(paths)
        kinds = {name: type(value) for name, value in asdict(RunStatus()).items() if type(value) in (int, bool)}
        if any(type(getattr(status, name)) is not kind for name, kind in kinds.items()):
            raise RunDirectoryError(f"{paths.status} has a value of the wrong type")
        return status
    except RunDirectoryError as error:
        aside = paths.status.with_name(f"run_status.unreadable-{utc_now().replace(':', '')}.json")
        os.replace(paths.status, aside)
        say(f"{error}; set aside as {aside.name}, its counters start again")
        return RunStatus()


def refuse_failed(paths: RunPaths, spec: Spec, status: RunStatus, call_id: str | None) -> None:
    """Raise NotAgain where an earlier failure forbids this attempt.

    A crash, or an end without a result, is tried again by another Snakemake call; out of memory also by the same
    one, a few times; a used limit only after ``unbroken retry`` or with a higher limit.
    """
    if status.status != "failed":
        return
    limits = spec.limits
    used = {
        "budget": (status.resubmit_count, limits.max_resubmit_attempts, 1),
        "no_progress": (status.no_progress_count, limits.no_progress_limit, 0),
        "early_preemptions": (status.early_preemptions, limits.early_preemption_limit, 1),
    }
    if status.failure in used:
        count, limit, above = used[status.failure]
        if limit is not None and count >= limit + above:
            raise GaveUp(f"{spec.name} is not trained again: {status.reason}\n  unbroken retry {paths.root}")
        return
    if call_id is None or status.call_id != call_id or status.failure == "killed":
        return
    if status.failure == "out_of_memory":
        cap = spec.operational.get("memory_cap_mb")
        at_cap = cap is not None and status.mem_mb_asked is not None and status.mem_mb_asked >= cap
        if status.out_of_memory_count <= OUT_OF_MEMORY_TRIES and not at_cap:
            return
        why = f"it had asked for {status.mem_mb_asked} MB" + (f", the cap (memory_cap_mb) is {cap}" if cap else "")
        raise NotAgain(f"{spec.name} ran out of memory {status.out_of_memory_count} times; {why}")
    raise NotAgain(failure_message(paths, spec, f"{status.reason}; this call does not train it again", status.attempt))


def failure_message(paths: RunPaths, spec: Spec, reason: str, attempt: int) -> str:
    """Names the run, the error, the end of its log, and the log."""
    log = paths.attempt_log(attempt)
    lines = [f"  | {line}" for line in last_lines(log)]
    return "\n".join([f"{spec.name}: attempt {attempt} failed: {reason}", *lines, f"  log: {log}"])


def status_changes(decision: Decision, exit_code: int | None) -> dict[str, Any]:
    """A decision as fields of run_status.json."""
    return {
        "status": decision.status,
        "reason": decision.reason,
        "failure": decision.failure,
        "exit_code": exit_code,
        "pid": None,
        **decision.changes,
    }

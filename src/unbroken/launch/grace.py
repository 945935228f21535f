"""Does stopping fit the time that Slurm leaves? Measured once an attempt was stopped; says which number to change."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.launch.say import say
from unbroken.run_dir.events import append_event, read_events

SHARE = 0.8
"""Of the time that is left; above it the next stop may not fit."""


def check(paths: RunPaths, attempt: int, stop_s: float | None, lead_s: float, partition: str | None) -> None:
    """Say and record where the next stop may not fit the time that Slurm leaves, and which number to change."""
    needed = time_needed(stop_s, read_events(paths), attempt)
    if needed < 1.0:
        return  # fits anything
    for sentence in warnings(needed, lead_s, *limits_of_slurm(partition)):
        say(f"warning: {sentence}")
        append_event(paths, "grace_warning", attempt, warning=sentence)


def time_needed(stop_s: float | None, events: Iterable[Mapping[str, Any]], attempt: int) -> float:
    """Seconds: the measured stop, or the longest save of the attempt where that took longer."""
    saves = [
        float(event["seconds"])
        for event in events
        if event.get("event") == "checkpoint_saved"
        and event.get("attempt") == attempt
        and isinstance(event.get("seconds"), int | float)
    ]
    return max([stop_s or 0.0, *saves])


def warnings(needed_s: float, lead_s: float, kill_wait_s: float | None, grace_time_s: float | None) -> list[str]:
    """One sentence for each limit that ``needed_s`` does not fit well."""
    found = []
    shorter = "or make a save quicker"
    if needed_s > SHARE * lead_s:
        found.append(
            f"stopping takes {needed_s:.1f} s, the warning comes {lead_s:g} s before the time limit: raise N in "
            f"--signal=USR1@N (slurm_extra) to {int(needed_s * 2) + 1}, {shorter}"
        )
    if grace_time_s and needed_s > SHARE * grace_time_s:
        found.append(
            f"stopping takes {needed_s:.1f} s, the partition's GraceTime is {grace_time_s:g} s: use a partition with "
            f"more, ask for more, {shorter}"
        )
    if not grace_time_s and kill_wait_s is not None and needed_s > SHARE * kill_wait_s:
        found.append(
            f"stopping takes {needed_s:.1f} s, and a preempted or cancelled job is killed after KillWait, "
            f"{kill_wait_s:g} s: use a partition with a GraceTime, ask for a longer KillWait, {shorter}"
        )
    return found


def limits_of_slurm(partition: str | None) -> tuple[float | None, float | None]:
    """KillWait and the partition's GraceTime, seconds; None where Slurm does not tell."""
    from unbroken.errors import SlurmError
    from unbroken.slurm.client import partition as show_partition
    from unbroken.slurm.client import show_config

    kill_wait = grace = None
    try:
        kill_wait = _seconds(show_config().get("KillWait"))
        if partition:
            grace = _seconds(show_partition(partition).get("GraceTime"))
    except SlurmError as error:
        say(f"the time that Slurm leaves for a stop is unknown: {error}")
    return kill_wait, grace


def _seconds(text: str | None) -> float | None:
    found = re.match(r"\d+", text or "")
    return float(found[0]) if found else None

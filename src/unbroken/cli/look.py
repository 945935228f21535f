"""One look at every run, as text or JSON. Imports nothing slow: `unbroken status` comes here without typer."""

import sys
from typing import Any

from unbroken.cli import ahead, output, place, project, queue
from unbroken.cli.rows import collection_rows, totals
from unbroken.report.text import plural

_HEADERS = (
    *("run", "seed", "state", "progress", "step", "time left", "tries"),
    *("resub", "signal", "job", "node", "saved", "what"),
)
"""In the order of _cells."""
_STYLES = {"failed": "red", "unreadable": "red", "running": "green", "pending": "dim"}
_STYLES |= dict.fromkeys(("preempted", "stopped", "cancelled"), "yellow")


def look(slug: str | None, as_json: bool, clear: bool = False) -> None:
    """One look at everything."""
    known = project.known_collections()
    collections = project.chosen(known, slug)
    runs = known["runs"]
    read = {name: project.read_statuses(runs, name) for name in collections}
    jobs = queue.Queue(ahead.take("queue", queue.known_queue))
    shown = {name: list(collection_rows(name, collections[name], runs, read[name], jobs)) for name in collections}
    stopped = [row for rows in shown.values() for row in rows if row["status"] == "stopped"]
    if stopped:
        from unbroken.cli.lost import explain

        explain(stopped, runs)
    if as_json:
        found = {name: {"runs": rows, "totals": totals(rows)} for name, rows in shown.items()}
        output.print_json({"collections": found, "runs_dir": runs, "slurm": jobs.why_not})
        return
    if clear:
        sys.stdout.write("\x1b[H\x1b[2J\x1b[3J")
    for name, rows in shown.items():
        _show(name, rows)
    if not any(read.values()):
        print(f"No run directories were found: looked in {runs}/ ({place.runs_source()}).")
    if jobs.why_not:
        print(f"Slurm did not answer, so jobs and pending reasons are missing: {jobs.why_not}")


def _show(name: str, rows: list[dict[str, Any]]) -> None:
    styles = [_STYLES.get(row["status"], "") for row in rows]
    output.print_table(_HEADERS, [_cells(row) for row in rows], styles)
    count = totals(rows)
    states = ", ".join(f"{number} {state}" for state, number in sorted(count["states"].items()))
    print(
        f"{name}: {plural(count['runs'], 'run')}: {states or 'none'}; "
        f"{plural(count['attempts'], 'attempt')}, {plural(count['resubmits'], 'resubmit')}"
    )
    pending = count["pending_settings"]
    if pending:
        more = f" and {len(pending) - 5} more" if len(pending) > 5 else ""
        print(f"{name}: {plural(len(pending), 'setting')} not started: {'; '.join(pending[:5])}{more}")
    print()


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    get = row.get
    state, total, attempt, resubmits = row["status"], get("total_steps"), get("attempt"), get("resubmit_count")
    counts = (str(attempt) if attempt else "", str(resubmits) if resubmits else "")
    signal, job = get("last_signal") or "", get("slurm_job_id") or ""
    if state == "completed":
        done = f"{get('global_step') or total}/{total}" if total else ""
        return row["label"], str(row["seed"]), state, output.FULL_BAR, done, "", *counts, signal, job, "", "", ""
    step = get("global_step") or 0
    return (
        row["label"],
        str(row["seed"]),
        state,
        output.bar(step, total),
        f"{step}/{total}" if total else str(step or ""),
        output.duration(get("eta_s")),
        *counts,
        signal,
        job,
        get("host") or "",
        output.duration(get("checkpoint_age_s")),
        get("reason") or "",
    )

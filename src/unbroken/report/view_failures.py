"""Runs that are not finished, and why."""

from collections import Counter

from unbroken.report.jobs import Jobs, job_ids
from unbroken.report.markup import Markup, clean, join, tag
from unbroken.report.records import Record
from unbroken.report.tables import Column, state_mark, table
from unbroken.report.text import plural
from unbroken.slurm.diagnose import diagnose
from unbroken.slurm.gather import identity_problem
from unbroken.slurm.verdict import Evidence, Verdict

MOST_RUNS = 100
LOG_LINES = 12
MOST_LOGS = 10
TAIL_BYTES = 32_768


def failures_section(records: list[Record], jobs: Jobs) -> tuple[str, str, Markup] | None:
    """Failed runs first, then those that are stopped; None where there are none."""
    failed = [record for record in records if record.state == "failed"]
    stopped = [record for record in records if record.state == "preempted"]
    shown = (failed + stopped)[:MOST_RUNS]
    if not shown:
        return None
    columns = [
        Column("run", "name"),
        Column("state"),
        Column("why", "text"),
        Column("what to do", "text"),
        Column("attempts", "num"),
    ]
    rest = len(failed) + len(stopped) - len(shown)
    parts = [
        tag("p", _counts(failed, stopped)),
        table(columns, [_row(record, verdict(record, jobs)) for record in shown], cards=True),
        tag("p", f"{plural(rest, 'more run')} not shown.", class_="soft small") if rest else None,
        *(_log(record) for record in failed[:MOST_LOGS]),
    ]
    return "failures", "Not finished, and why", join(parts)


def _counts(failed: list[Record], stopped: list[Record]) -> str:
    kinds = Counter((record.status.failure or "other").replace("_", " ") for record in failed)
    counted = ", ".join(f"{kind}: {count}" for kind, count in kinds.most_common())
    words = [f"{plural(len(failed), 'run')} failed ({counted})."] if failed else []
    words += [f"{plural(len(stopped), 'run')} stopped and can go on."] if stopped else []
    return " ".join(words)


def verdict(record: Record, jobs: Jobs) -> Verdict:
    """What `unbroken why` would say of the run, from the same evidence; the status' own reason where that fails."""
    ids = job_ids(record)
    evidence = Evidence(
        name=record.name,
        command=f"snakemake {'--profile slurm ' if ids else ''}{record.run.collection}",
        status=record.status,
        events=record.events,
        has_result=record.result is not None,
        identity_problem=identity_problem(record.paths),
        job_id=ids[-1] if ids else None,
        rows=jobs.of(record),
        log=str(record.log) if record.log else None,
        log_tail="\n".join(last_lines(record, 200)),
    )
    try:
        found = diagnose(evidence)
    except Exception:  # a hostile event must not cost the page; the run's own words remain
        return Verdict("unknown", record.reason)
    return found if found.kind != "unknown" and found.sentence else Verdict(found.kind, record.reason, fix=found.fix)


def _row(record: Record, found: Verdict) -> list[object]:
    sentence = clean(found.sentence).removeprefix(f"{record.name}: ") or record.reason or "no reason was recorded"
    told = record.log is None or str(record.log) in sentence
    log = None if told else tag("div", str(record.log), class_="soft small")
    return [
        record.name,
        state_mark(record.state),
        join([tag("div", sentence), log]),
        clean(found.fix) or "–",
        record.status.attempt,
    ]


def _log(record: Record) -> Markup | None:
    lines = last_lines(record)
    if not lines:
        return None
    return tag("details", tag("summary", f"Last lines of {record.name}"), tag("pre", "\n".join(lines), tabindex="0"))


def last_lines(record: Record, most: int = LOG_LINES) -> list[str]:
    """The end of the newest attempt's log; empty where there is none."""
    if record.log is None:
        return []
    try:
        with open(record.log, "rb") as file:
            file.seek(max(0, record.log.stat().st_size - TAIL_BYTES))
            tail = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = [line.rsplit("\r", 1)[-1].rstrip() for line in tail.replace("\r\n", "\n").split("\n")]
    return [line[:400] for line in lines if line][-most:]

"""sacct as a pandas table, one row a run over all its attempts; what to ask Slurm for next time."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from unbroken.slurm.accounting_rows import AccountingRow, parse_memory_mib

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    *("run", "label", "state", "jobs", "attempts", "elapsed_s", "queued_s", "cpus", "cpu_used_s", "cpu_efficiency"),
    *("max_rss_mib", "memory_asked_mib", "memory_efficiency", "gpus", "gpu_hours", "limit_s", "nodes"),
    *("requested_tres", "allocated_tres"),
)
"""elapsed, queued and CPU seconds are sums over all attempts; memory is the largest of them."""


def run_record(name: str, label: str, rows: Sequence[AccountingRow]) -> dict[str, Any]:
    """One run over all its jobs and requeues, by COLUMNS. Numbers that Slurm does not know are None."""
    jobs = [row for row in rows if not row.step]
    started = [row for row in jobs if row.started]
    elapsed = sum(row.elapsed_s for row in started)
    allocated = sum(row.cpu_allocated_s for row in started)
    used = sum(row.cpu_used_s for row in started)
    peaks = [row.max_rss_mib for row in rows if row.step and row.max_rss_mib]
    asked = max((mib for row in jobs if (mib := asked_memory(row)) is not None), default=None)
    peak = max(peaks, default=None)
    last = jobs[-1] if jobs else None
    return {
        "run": name,
        "label": label,
        "state": last.state if last else None,
        "jobs": ",".join(dict.fromkeys(row.job_id for row in jobs)),
        "attempts": len(started),
        "elapsed_s": elapsed,
        "queued_s": sum(waited(row) for row in started),
        "cpus": max((row.cpus for row in started), default=None),
        "cpu_used_s": round(used, 3),
        "cpu_efficiency": round(used / allocated, 4) if allocated else None,
        "max_rss_mib": peak,
        "memory_asked_mib": asked,
        "memory_efficiency": round(peak / asked, 4) if peak and asked else None,
        "gpus": max((gpus(row) for row in started), default=0),
        "gpu_hours": round(sum(gpus(row) * row.elapsed_s for row in started) / 3600, 4),
        "limit_s": last.limit_s if last else None,
        "nodes": ",".join(dict.fromkeys(row.nodes for row in started if row.nodes)),
        "requested_tres": _text(last.requested_tres) if last else "",
        "allocated_tres": _text(started[-1].allocated_tres) if started else "",
    }


def waited(row: AccountingRow) -> float:
    """Seconds between the moment from which it could start and its start."""
    begin, start = row.eligible or row.submitted, row.started
    if not begin or not start:
        return 0.0
    return max(0.0, (datetime.fromisoformat(start) - datetime.fromisoformat(begin)).total_seconds())


def asked_memory(row: AccountingRow) -> float | None:
    """Memory asked for on one node, MiB: the request as the version of Slurm writes it (4G, 4Gn, 2Gc)."""
    asked = parse_memory_mib(row.requested_tres.get("mem", "")) or parse_memory_mib(row.requested_memory)
    if asked and not row.requested_tres.get("mem") and row.requested_memory.endswith("c"):
        return asked * max(1, row.cpus)
    return asked


def gpus(row: AccountingRow) -> int:
    """GPUs allocated, of every kind together."""
    tres = row.allocated_tres
    if "gres/gpu" in tres:
        return int(tres["gres/gpu"])
    return sum(int(count) for key, count in tres.items() if key.startswith("gres/gpu:") and count.isdigit())


def _text(tres: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in tres.items())


def table(records: Sequence[Mapping[str, Any]]) -> "pandas.DataFrame":
    """The records as a DataFrame with COLUMNS, one row a run."""
    import pandas

    return pandas.DataFrame(list(records), columns=list(COLUMNS))


def why_no_memory(gather_type: str | None) -> str:
    """One sentence on why MaxRSS is blank, given ``JobAcctGatherType`` of the cluster (None: not known)."""
    if gather_type and gather_type.endswith("none"):
        return "MaxRSS is blank because this cluster measures no memory (JobAcctGatherType=jobacct_gather/none)."
    return (
        "MaxRSS is blank where no step was sampled: only steps carry it (never the job's own row), a job without an "
        "srun step has it in .batch alone, and a step shorter than JobAcctGatherFrequency ends before its first sample."
    )


def suggest(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What to ask for in ``resources``, from finished runs: the largest need seen, plus a reserve.

    Time: 1.3 times the longest run, rounded up to 5 min. Memory: 1.3 times the largest MaxRSS, to 100 MB. CPUs: what
    the busiest run kept busy, at least 1. Empty where nothing has finished.
    """
    done = [record for record in records if record["state"] == "COMPLETED"]
    if not done:
        return {}
    minutes = max(record["elapsed_s"] for record in done) * 1.3 / 60
    found: dict[str, Any] = {"from_runs": len(done), "runtime": max(5, -(-int(minutes + 1) // 5) * 5)}
    peaks = [record["max_rss_mib"] for record in done if record["max_rss_mib"]]
    if peaks:
        found["mem_mb"] = -(-int(max(peaks) * 1.3 * 1.048576 + 1) // 100) * 100
    busy = [record["cpu_used_s"] / record["elapsed_s"] for record in done if record["elapsed_s"]]
    if busy:
        found["cpus_per_task"] = max(1, round(max(busy) + 0.3))
    return found

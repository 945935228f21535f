"""What the runs asked for and what they used, by setting."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from unbroken.report.history import History
from unbroken.report.ledger import gpus_of
from unbroken.slurm.accounting_rows import AccountingRow, parse_memory_mib


@dataclass
class Usage:
    """The most that any attempt of these runs asked for and used; None where it is not known."""

    label: str
    runs: int = 0
    attempts: int = 0
    longest_s: float = 0.0
    limit_s: float | None = None
    memory_mib: float | None = None
    memory_asked_mib: float | None = None
    cpus: float | None = None
    cpu_used_s: float = 0.0
    cpu_allocated_s: float = 0.0
    gpus: float = 0.0
    nodes: set[str] = field(default_factory=set)

    @property
    def cpu_share(self) -> float | None:
        """CPU time used of that allocated."""
        return self.cpu_used_s / self.cpu_allocated_s if self.cpu_allocated_s else None


def usage_by_setting(histories: Iterable[History], rows: Mapping[str, list[AccountingRow]]) -> list[Usage]:
    """One Usage a setting, in the order of the file. ``rows``: accounting by job id."""
    found: dict[str, Usage] = {}
    for history in histories:
        if not history.attempts:
            continue
        run = history.record.run
        usage = found.setdefault(run.setting, Usage(run.label))
        usage.runs += 1
        _add_status(usage, history, run.of.resources)
        for attempt in history.attempts:
            usage.attempts += 1
            usage.longest_s = max(usage.longest_s, attempt.row.elapsed_s if attempt.row else attempt.seconds)
            usage.gpus = max(usage.gpus, gpus_of(run.of.resources, attempt))
        for job in dict.fromkeys(attempt.job_id for attempt in history.attempts if attempt.job_id):
            for row in rows.get(job, []):
                _add_row(usage, row)
    return list(found.values())


def _most(one: float | None, other: float | None) -> float | None:
    return max(one, other) if one is not None and other is not None else other if one is None else one


def _add_status(usage: Usage, history: History, resources: Mapping[str, Any]) -> None:
    status = history.record.status
    asked, runtime, cpus = status.mem_mb_asked, resources.get("runtime"), resources.get("cpus_per_task")
    usage.memory_mib = _most(usage.memory_mib, status.mem_mb_used)
    usage.memory_asked_mib = _most(usage.memory_asked_mib, asked)
    if isinstance(runtime, int | float) and any(attempt.job_id for attempt in history.attempts):
        usage.limit_s = _most(usage.limit_s, 60.0 * runtime)
    if isinstance(cpus, int):
        usage.cpus = _most(usage.cpus, cpus)


def _add_row(usage: Usage, row: AccountingRow) -> None:
    usage.memory_mib = _most(usage.memory_mib, row.max_rss_mib)
    if row.step:
        return
    usage.limit_s = _most(usage.limit_s, row.limit_s)
    usage.memory_asked_mib = _most(usage.memory_asked_mib, parse_memory_mib(row.requested_tres.get("mem", "")))
    usage.cpus = _most(usage.cpus, row.cpus)
    usage.cpu_used_s += row.cpu_used_s
    usage.cpu_allocated_s += row.cpu_allocated_s
    if row.nodes:
        usage.nodes.add(row.nodes)

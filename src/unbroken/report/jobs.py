"""The runs' jobs in Slurm's accounting, asked for once; a page without it is a page all the same."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from unbroken.errors import SlurmError
from unbroken.report.records import Record
from unbroken.slurm import client
from unbroken.slurm.accounting_rows import AccountingRow

MOST_JOBS = 5_000


@dataclass(frozen=True)
class Jobs:
    """Accounting rows by job id, and a sentence about where they come from."""

    rows: dict[str, list[AccountingRow]] = field(default_factory=dict)
    note: str = ""

    def of(self, record: Record) -> list[AccountingRow]:
        """Every row of a run's jobs."""
        return [row for job in job_ids(record) for row in self.rows.get(job, [])]


def job_ids(record: Record) -> list[str]:
    """The Slurm jobs of a run, oldest first."""
    told = [event.get("slurm_job_id") for event in record.events] + [record.status.slurm_job_id]
    return list(dict.fromkeys(str(job) for job in told if job))


def ask_accounting(records: Iterable[Record]) -> Jobs:
    """One sacct call for all jobs. Never raises: the note says what is missing and why."""
    wanted = list(dict.fromkeys(job for record in records for job in job_ids(record)))
    if not wanted:
        return Jobs(
            note="No run had a Slurm job: times are those of the launcher, memory as far as it could measure it."
        )
    if not client.available("sacct"):
        return Jobs(note="There is no sacct here: times and memory are those that the launcher wrote down.")
    try:
        rows = client.accounting(wanted[-MOST_JOBS:])
    except (SlurmError, OSError) as error:
        why = str(error).split(":")[0].strip()[:120]
        return Jobs(note=f"Slurm's accounting did not answer ({why}): times and memory are the launcher's.")
    found: dict[str, list[AccountingRow]] = {}
    for row in rows:
        found.setdefault(row.raw_id, []).append(row)
        if row.job_id != row.raw_id:
            found.setdefault(row.job_id, []).append(row)
    note = "Limits, memory and CPU time as Slurm's accounting has them (sacct)."
    if len(wanted) > MOST_JOBS:
        note += f" Only the newest {MOST_JOBS:,} of {len(wanted):,} jobs were asked for."
    return Jobs(found, note)

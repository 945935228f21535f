"""One row of sacct, read: units as numbers, ``CANCELLED by 0`` taken apart."""

import re
from dataclasses import dataclass
from datetime import datetime

from unbroken.slurm.states import is_final

SEPARATOR = "\x1f"
_NAMES = (
    "JobID,JobIDRaw,State,ExitCode,DerivedExitCode,Partition,NodeList,Submit,Eligible,Start,End,ElapsedRaw,"
    "TimelimitRaw,NCPUS,CPUTimeRAW,TotalCPU,ReqMem,MaxRSS,ReqTRES,AllocTRES,Reason,JobName"
)
FIELDS = _NAMES
_COUNT = _NAMES.count(",") + 1
_UNITS_KIB = {"": 1 / 1024, "K": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}


@dataclass(frozen=True)
class AccountingRow:
    """A job (``step`` empty) or one of its steps, in one of its attempts."""

    job_id: str
    """``36`` or ``36_2``, without the step."""
    raw_id: str
    step: str
    """Empty for the job itself, else ``batch``, ``extern``, ``0``, ``1``, ..."""
    name: str
    state: str
    """One word: ``CANCELLED by 1000`` is CANCELLED here."""
    cancelled_by: int | None
    """The user id that cancelled it, where Slurm says so."""
    exit_code: int
    signal: int
    """N and M of ``ExitCode=N:M``."""
    derived_exit_code: int | None
    """Highest exit code of the steps; None on step rows."""
    partition: str
    nodes: str
    submitted: str | None
    eligible: str | None
    started: str | None
    ended: str | None
    """ISO 8601 with offset; None where it has not happened."""
    elapsed_s: int
    limit_s: int | None
    """The time limit in seconds; None where there is none."""
    cpus: int
    cpu_allocated_s: int
    """CPUs times elapsed seconds."""
    cpu_used_s: float
    """User and system time together, seconds."""
    requested_memory: str
    """As Slurm says it: ``4G``, older versions ``4Gn`` (a node) or ``2Gc`` (a CPU)."""
    max_rss_mib: float | None
    """Largest resident memory of one task, MiB; None where Slurm did not measure."""
    requested_tres: dict[str, str]
    allocated_tres: dict[str, str]
    reason: str
    restart: int = 0
    """How many requeues came before this row: 0 for the first attempt."""

    @property
    def tells_the_end(self) -> bool:
        """Whether the state says how the job has ended.

        CANCELLED by nobody does not: so a controller that has started with empty hands closes what was open before.
        """
        return is_final(self.state) and not (self.state == "CANCELLED" and self.cancelled_by is None)


def parse_accounting(text: str) -> list[AccountingRow]:
    """The rows of a sacct answer with FIELDS, parsable, no header; requeues counted in ``restart``."""
    rows: list[AccountingRow] = []
    seen: dict[str, int] = {}
    pending = ""
    for line in text.splitlines():
        pending = f"{pending} {line}" if pending else line
        if pending.count(SEPARATOR) < _COUNT - 1:
            continue  # a job name with a line break
        fields = pending.split(SEPARATOR, _COUNT - 1)
        pending = ""
        raw_id, _, step = fields[1].partition(".")
        if not step:
            seen[raw_id] = seen.get(raw_id, -1) + 1
        rows.append(_row(fields, raw_id, step, max(seen.get(raw_id, 0), 0)))
    return rows


def _row(fields: list[str], raw_id: str, step: str, restart: int) -> AccountingRow:
    state, cancelled_by = parse_state(fields[2])
    code, signal = parse_pair(fields[3])
    return AccountingRow(
        job_id=fields[0].partition(".")[0],
        raw_id=raw_id,
        step=step,
        name=fields[21],
        state=state,
        cancelled_by=cancelled_by,
        exit_code=code,
        signal=signal,
        derived_exit_code=parse_pair(fields[4])[0] if fields[4] else None,
        partition=fields[5],
        nodes="" if fields[6] == "None assigned" else fields[6],
        submitted=parse_time(fields[7]),
        eligible=parse_time(fields[8]),
        started=parse_time(fields[9]),
        ended=parse_time(fields[10]),
        elapsed_s=_integer(fields[11]),
        limit_s=int(fields[12]) * 60 if fields[12].isdigit() else None,
        cpus=_integer(fields[13]),
        cpu_allocated_s=_integer(fields[14]),
        cpu_used_s=parse_duration(fields[15]),
        requested_memory=fields[16],
        max_rss_mib=parse_memory_mib(fields[17]),
        requested_tres=parse_tres(fields[18]),
        allocated_tres=parse_tres(fields[19]),
        reason="" if fields[20] == "None" else fields[20],
        restart=restart,
    )


def parse_state(text: str) -> tuple[str, int | None]:
    """``CANCELLED by 1000`` -> (``CANCELLED``, 1000); any other state -> (it, None)."""
    word, _, rest = text.strip().partition(" ")
    uid = rest.removeprefix("by ").strip()
    return word.rstrip("+").upper(), int(uid) if uid.isdigit() else None


def parse_pair(text: str) -> tuple[int, int]:
    """``0:125`` -> (0, 125); nonsense -> (0, 0)."""
    code, _, signal = text.strip().partition(":")
    return _integer(code), _integer(signal)


def parse_time(text: str) -> str | None:
    """A time as sacct prints it (local, no offset) as ISO 8601 with offset; None for Unknown, None and N/A."""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError:
        return None


def parse_duration(text: str) -> float:
    """``[days-][hours:]minutes:seconds[.fraction]`` in seconds; 0.0 for nonsense."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text.strip())
    if not match:
        return 0.0
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def parse_memory_mib(text: str) -> float | None:
    """``411044K``, ``1.5G``, ``4Gn`` in MiB; None for blank."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?", text.strip())
    return round(float(match[1]) * _UNITS_KIB[match[2]] / 1024, 3) if match else None


def parse_tres(text: str) -> dict[str, str]:
    """``cpu=2,gres/gpu=1,mem=4G`` as a dictionary."""
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {key: value for key, _, value in pairs}


def _integer(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0

"""Read what squeue and scontrol print; free text (names, paths, comments) cannot pose as another field."""

import re
from dataclasses import dataclass

RECORD, FIELD = "\x1e", "\x1f"
"""ASCII record and unit separator: no name that a person types contains them."""

QUEUE_FORMAT = RECORD + FIELD.join(
    ["%i", "%A", "%T", "%r", "%P", "%N", "%u", "%V", "%S", "%M", "%l", "%Q", "%Z", "%k", "%j"]
)

# Lines of `scontrol show job` whose value is free text up to the end of the line.
_FREE_TEXT = frozenset(
    {"Command", "WorkDir", "StdErr", "StdIn", "StdOut", "Comment", "AdminComment", "SystemComment", "ExtraInfo"}
    | {"BurstBuffer", "Container", "Extra", "SubmitLine"}
)
_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w/:]*)=")
_FIRST_LINE = re.compile(r"(?P<ids>(?:\w+=\S+ )*)JobName=(?P<name>.*)", re.DOTALL)


@dataclass(frozen=True)
class QueuedJob:
    """One job, or one task of an array, as squeue shows it."""

    job_id: str
    """What a person types: ``36``, or ``36_2`` for an array task."""
    raw_id: str
    """The job's own number; differs from ``job_id`` for array tasks."""
    state: str
    """In full: PENDING, RUNNING, COMPLETING, PREEMPTED, ..."""
    reason: str
    """Slurm's reason code, ``None`` as text where there is none; see ``slurm.reasons``."""
    partition: str
    nodes: str
    """Node list, empty while pending."""
    user: str
    submitted: str
    starts: str
    """Start time, or the expected one of a pending job; ``N/A`` where unknown. ISO 8601 with offset."""
    elapsed: str
    limit: str
    priority: str
    workdir: str
    comment: str
    """Names the run where unbroken's executor has submitted the job: ``rule_..._wildcards_<slug>_<setting>_<seed>``."""
    name: str


def parse_queue(text: str) -> list[QueuedJob]:
    """The jobs of a squeue answer in QUEUE_FORMAT. A record with another number of fields is passed over."""
    jobs = []
    for record in text.split(RECORD)[1:]:
        fields = record.rstrip("\n").split(FIELD, 14)
        if len(fields) == 15:
            jobs.append(QueuedJob(*(field.strip() for field in fields)))
    return jobs


def parse_records(text: str) -> list[dict[str, str]]:
    """The records of ``scontrol show job|partition|node``: one dictionary each, keys and values verbatim."""
    blocks = [block for block in re.split(r"\n\s*\n", text) if "=" in block]
    return [_parse_record(block) for block in blocks]


def _parse_record(block: str) -> dict[str, str]:
    """One record. Later lines win, so that a name with line breaks cannot overrule what Slurm prints after it."""
    record: dict[str, str] = {}
    lines = block.strip("\n").split("\n   ")
    first = _FIRST_LINE.fullmatch(lines[0])
    if first:
        record.update(_pairs(first["ids"]))
        record["JobName"] = first["name"]
        lines = lines[1:]
    for line in lines:
        key, equals, rest = line.strip().partition("=")
        if equals and key in _FREE_TEXT:
            record[key] = rest
        else:
            record.update(_pairs(line))
    return record


def _pairs(line: str) -> dict[str, str]:
    """``A=1 B=two words C=3`` -> its pairs; a value reaches up to the next key."""
    found = list(_KEY.finditer(line))
    ends = [match.start() for match in found[1:]] + [len(line)]
    return {match[1]: line[match.end() : end].strip() for match, end in zip(found, ends, strict=True)}


def parse_config(text: str) -> dict[str, str]:
    """The ``Key = Value`` lines of ``scontrol show config``."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("Slurmctld("))
    return {key.strip(): value.strip() for key, _, value in pairs}

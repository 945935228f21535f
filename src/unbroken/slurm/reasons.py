"""Why a job waits: every documented reason code of Slurm in words, each with what to do about it.

Sources: slurm.schedmd.com/job_reason_codes.html (25.05) and the reason strings of slurm 22.05. About 150 of the codes
follow a grammar (whose limit, of what, counted how), which is read here instead of being listed.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["waits", "held", "partition", "limit", "request", "broken", "ended"]


@dataclass(frozen=True)
class Reason:
    """One explained reason code."""

    code: str
    words: str
    """A clause to follow after "it waits because"."""
    fix: str
    """One sentence for a person."""
    kind: Kind
    """waits: time solves it. held, partition, limit, request: somebody must act. broken: ask the cluster's admins."""


_WAIT = "Nothing to do: it starts by itself."
_RELEASE = "Release it: scontrol release JOBID."
_ADMIN = "Ask the administrators of the cluster."
_PARTITION = "Choose another partition (unbroken cluster lists them) under `slurm_partition`, or wait until it is up."
_ASK_LESS = "Ask for less in the collection's resources, or for another partition or QOS."
_ACCOUNT = "Set `slurm_account` (and `qos`) in the profile to one of those that `unbroken cluster` lists for you."
_BEGIN = "it may not start before a set time (after a requeue Slurm sets one)"
_RESUBMIT = "Cancel it (scancel JOBID) and start the collection again: snakemake --profile slurm."

LAUNCH_FAILED: Final = "launch failed requeued held"
"""A sentence instead of a code (so are two others): Slurm's own hold, after a fault of the node."""

_TABLE: Final[dict[str, tuple[Kind, str, str]]] = {
    "None": ("waits", "the scheduler has not looked at it yet", _WAIT),
    "WaitingForScheduling": ("waits", "the scheduler has not looked at it yet", _WAIT),
    "Priority": ("waits", "jobs with a higher priority are before it", _WAIT + " A shorter time limit fits gaps."),
    "Resources": ("waits", "the CPUs, memory or GPUs it asks for are in use", _WAIT + " Asking for less is faster."),
    "BeginTime": ("waits", _BEGIN, _WAIT),
    "Cleaning": ("waits", "it is being requeued and its last attempt is still being cleaned up", _WAIT),
    "Prolog": ("waits", "the cluster's prolog program prepares its node", _WAIT),
    "Dependency": ("waits", "it waits for another job to end", _WAIT),
    "JobArrayTaskLimit": ("waits", "its array runs as many tasks at once as it may", _WAIT),
    "Licenses": ("waits", "a licence that it asks for is in use", _WAIT),
    "Reservation": ("waits", "its reservation has not begun", _WAIT),
    "FedJobLock": ("waits", "the clusters of the federation agree who runs it", _WAIT),
    "BurstBufferStageIn": ("waits", "its files are copied into the burst buffer", _WAIT),
    "BurstBufferResources": ("waits", "the burst buffer is full", _WAIT),
    "PowerNotAvail": ("waits", "the power budget of the cluster is used", _WAIT),
    "PowerReserved": ("waits", "the power budget is reserved for another job", _WAIT),
    "SchedDefer": (
        "waits",
        "it wants to start at once and the cluster defers such jobs",
        "Submit it without --immediate.",
    ),
    "ReqNodeNotAvail": (
        "waits",
        "a node that it needs is reserved, down or drained (often a maintenance window before its time limit ends)",
        "Ask for a shorter time, name no node, or wait: scontrol show reservation tells when.",
    ),
    "Constraints": ("waits", "no node offers its features now", "Remove `constraint`, or wait for such a node."),
    "JobHeldUser": ("held", "its owner (or an account coordinator) holds it", _RELEASE),
    "JobHeldAdmin": ("held", "an administrator holds it", "Ask the administrators why; only they can release it."),
    "JobHoldMaxRequeue": (
        "held",
        "it has been requeued too often in a row without starting properly (MAX_BATCH_REQUEUE)",
        "Look at its last log, then scontrol release JOBID.",
    ),
    "RequeueExit": ("held", "its exit code is one that the cluster requeues", _WAIT),
    "RequeueExitHold": ("held", "its exit code is one that the cluster requeues and holds", _RELEASE),
    "JobLaunchFailure": (
        "held",
        "its first process could not be started (file system, working directory, or its user unknown on the node)",
        "Check that the working directory exists on the node, then scontrol release JOBID.",
    ),
    LAUNCH_FAILED: (
        "held",
        "its node could not start it (the cluster's prolog failed, or the node still had a job of that number)",
        _RELEASE,
    ),
    "job requeued in held state": ("held", "somebody has put it back into the queue and holds it", _RELEASE),
    "job requeued in special exit state": ("held", "it is back in the queue, held, marked as special", _RELEASE),
    "ReservationDeleted": ("held", "its reservation was deleted", "Remove `reservation` and start it again."),
    "PartitionDown": ("partition", "its partition is down: it takes jobs and starts none", _PARTITION),
    "PartitionInactive": ("partition", "its partition is inactive: it starts no jobs", _PARTITION),
    "PartitionNodeLimit": (
        "partition",
        "it asks for more (or fewer) nodes than its partition allows, or those nodes are down",
        _PARTITION,
    ),
    "PartitionTimeLimit": (
        "partition",
        "its time limit is longer than its partition allows",
        "Lower `runtime` in the collection's resources: a run goes on over several jobs by itself.",
    ),
    "PartitionConfig": ("partition", "it breaks some limit of its partition", _PARTITION),
    "AccountNotAllowed": ("partition", "its account may not use this partition", _ACCOUNT),
    "QOSNotAllowed": ("partition", "its QOS may not be used in this partition or by this account", _ACCOUNT),
    "InvalidAccount": ("request", "its account does not exist or is not its user's", _ACCOUNT),
    "InvalidQOS": ("request", "its QOS does not exist or is not its user's", _ACCOUNT),
    "BadConstraints": ("request", "no node of the cluster can ever fulfil what it asks for", _ASK_LESS),
    "DependencyNeverSatisfied": (
        "request",
        "the job that it waits for ended in a way that never lets it start",
        _RESUBMIT,
    ),
    "DeadLine": ("request", "it cannot end before its deadline", "Give it a later deadline or none."),
    "MaxMemPerLimit": (
        "request",
        "it asks for more memory per CPU or node than allowed",
        "Lower `mem_mb`, or add CPUs.",
    ),
    "QOSUsageThreshold": ("limit", "the share used so far is above what its QOS allows", "Wait, or use another QOS."),
    "AccountingPolicy": ("limit", "it breaks a limit of its account or QOS", _ASK_LESS),
    "AssociationJobLimit": ("limit", "its account runs as many jobs as it may", _WAIT),
    "AssociationResourceLimit": ("limit", "its account uses as much of a resource as it may", _WAIT),
    "AssociationTimeLimit": ("limit", "its account's time is used up", _ACCOUNT),
    "QOSJobLimit": ("limit", "its QOS runs as many jobs as it may", _WAIT),
    "QOSResourceLimit": ("limit", "its QOS uses as much of a resource as it may", _WAIT),
    "QOSTimeLimit": ("limit", "its QOS's time is used up", "Use another QOS."),
    "BurstBufferOperation": ("broken", "an operation of the burst buffer failed", _ADMIN),
    "NodeDown": ("broken", "a node that it needs is down", "Name no node, or wait until it is back."),
    "FrontEndDown": ("broken", "no front end node is up", _ADMIN),
    "SystemFailure": ("broken", "Slurm, a file system or the network failed", _ADMIN),
    "BlockMaxError": ("broken", "a block of the machine has too many errors", _ADMIN),
    "BlockFreeAction": ("broken", "a block of the machine cannot be freed", _ADMIN),
    "NonZeroExitCode": ("ended", "it ended with an exit code other than 0", "See its log: unbroken why RUN."),
    "TimeLimit": ("ended", "it reached its time limit", "It goes on from its checkpoint: snakemake --profile slurm."),
    "OutOfMemory": ("ended", "it needed more memory than it had asked for", "Raise `mem_mb` in the resources."),
    "InactiveLimit": ("ended", "it was inactive for longer than the cluster allows", _ADMIN),
}

_RESOURCES: Final = {
    "cpu": "CPUs",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "gres": "GPUs or other devices (GRES)",
    "bb": "burst buffer",
    "billing": "billing units",
    "energy": "energy",
    "license": "licences",
    "unknown": "a resource that this Slurm does not name",
    "jobs": "running jobs",
    "submitjobs": "waiting and running jobs",
    "submitjob": "waiting and running jobs",
    "wall": "time of running jobs",
    "wallduration": "time limit",
}
_GRAMMAR: Final = re.compile(
    r"(?P<owner>Assoc|QOS|)(?P<scope>Grp|Max|Min)"
    r"(?P<what>SubmitJobs?|WallDuration|Wall|Jobs|Cpu|CPU|Memory|Mem|Node|GRES|BB|Billing|Energy|License|Unknown)"
    r"(?P<minutes>RunMinutes|Minutes)?(?:Per(?P<per>Job|Node|User|Account))?(?:Limit|NotSatisfied)?"
)
_PER: Final = {"Job": "one job", "Node": "one node", "User": "one user", "Account": "one account"}


def explain(code: str) -> Reason:
    """The reason code in words. Details that Slurm adds (``ReqNodeNotAvail, UnavailableNodes:n1``) are kept."""
    word, _, detail = code.strip().strip("()").partition(",")
    word = word.split("(")[0].strip()
    if word.endswith(("_held", "_state")):  # as scontrol writes a sentence
        word = word.replace("_", " ")
    known = _TABLE.get(word)
    reason = Reason(word, known[1], known[2], known[0]) if known else _from_grammar(word)
    if reason is None:
        words = f"Slurm gives the reason {code.strip()!r}, which this version of unbroken does not know"
        return Reason(code, words, "See slurm.schedmd.com/job_reason_codes.html.", "waits")
    extra = detail.strip(" _")  # scontrol writes spaces as underscores
    return Reason(reason.code, f"{reason.words} [{extra}]", reason.fix, reason.kind) if extra else reason


def _from_grammar(word: str) -> Reason | None:
    match = _GRAMMAR.fullmatch(word)
    if not match:
        return None
    owner = {"Assoc": "account", "QOS": "QOS", "": "QOS"}[match["owner"]]
    what = _RESOURCES[match["what"].lower()]
    if match["minutes"] == "Minutes":
        what = (
            f"{what}, counted in minutes of past and present jobs," if match["scope"] == "Grp" else f"{what} x minutes"
        )
    elif match["minutes"] == "RunMinutes":
        what = f"{what}, counted in minutes of running jobs,"
    if match["scope"] == "Min":
        return Reason(
            word, f"it asks for less {what} than its QOS requires", "Ask for more, or use another QOS.", "request"
        )
    if match["scope"] == "Grp":
        waiting = match["minutes"] != "Minutes"
        fix = "Nothing to do: it starts when other jobs of the account end." if waiting else _ACCOUNT
        return Reason(
            word, f"all jobs of its {owner} together have reached the limit of {what}".rstrip(","), fix, "limit"
        )
    per = _PER.get(match["per"] or "User", "one user")
    if match["per"] in {"Job", "Node"}:
        return Reason(word, f"it asks for more {what} than its {owner} allows for {per}", _ASK_LESS, "limit")
    fix = "Nothing to do: it starts when others of these jobs end."
    return Reason(word, f"{per} has reached the limit of {what} that its {owner} allows", fix, "limit")


def documented() -> frozenset[str]:
    """The codes that have a row of their own here; the grammar covers the rest."""
    return frozenset(_TABLE)

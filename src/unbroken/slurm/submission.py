"""What can be told about a submission before and after sbatch: options that break recovery, errors that pass."""

import re

from unbroken.errors import SlurmError
from unbroken.slurm.command import SlurmUnreachable, failure

_QUEUE_IS_FULL = re.compile(r"maxsubmitjob|qosmaxsubmit|job submit limit|unable to accept job", re.IGNORECASE)


def is_transient(message: str) -> bool:
    """Whether sbatch's complaint may pass by itself: the controller is away, or the queue is full."""
    return isinstance(failure("sbatch", 1, message), SlurmUnreachable) or bool(_QUEUE_IS_FULL.search(message))


_ADVICE = (
    (
        r"invalid account|account/partition combination",
        "set slurm_account to one of yours (`sacctmgr show user $USER -s`)",
    ),
    (r"invalid partition", "set slurm_partition to one that `sinfo` shows"),
    (r"invalid qos", "set qos to one that your account may use (`sacctmgr show assoc user=$USER format=account,qos`)"),
    (
        r"time limit is invalid|time limit specification",
        "lower runtime to the partition's MaxTime (`sinfo -o '%P %l'`)",
    ),
    (r"memory specification", "lower mem_mb to what a node has (`sinfo -o '%P %m'`)"),
    (r"invalid generic resource|gres", "ask for GPUs as the cluster names them (`sinfo -o '%P %G'`)"),
    (
        r"node configuration is not available|more processors requested",
        "ask for what one node has (`sinfo -o '%P %c %m %G'`)",
    ),
    (r"job violates accounting/qos policy", "ask for less, or see `unbroken cluster` for your account's limits"),
    (r"invalid feature", "set constraint to a feature that `sinfo -o '%P %f'` shows"),
)


def advice(message: str) -> str:
    """What to change where sbatch has refused for good; a file to look at where the reason is not known here."""
    known = next((fix for pattern, fix in _ADVICE if re.search(pattern, message, re.IGNORECASE)), None)
    where = "in default-resources of profiles/slurm/config.yaml or in the collection's resources"
    return f"{known}, {where}" if known else f"look at default-resources of profiles/slurm/config.yaml, and {where[3:]}"


def check_extra(extra: str) -> None:
    """Refuse sbatch options under which no warning can reach the trainer.

    Raises:
        SlurmError: ``--signal`` is addressed to the batch shell (``B:``), which has no trap and dies of it.
    """
    found = re.search(r"--signal[= ]?['\"]?([A-Za-z]*B[A-Za-z]*:\S*)", extra)
    if found:
        raise SlurmError(
            f"slurm_extra has --signal={found.group(1).strip(chr(39))}: with B: the warning goes to the batch shell "
            "and never reaches the trainer; write --signal=USR1@120"
        )

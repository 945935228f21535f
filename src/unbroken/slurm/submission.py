"""What can be told about a submission before and after sbatch: options that break recovery, errors that pass."""

import re

from unbroken.errors import SlurmError
from unbroken.slurm.command import SlurmUnreachable, failure

_QUEUE_IS_FULL = re.compile(r"maxsubmitjob|qosmaxsubmit|job submit limit|unable to accept job", re.IGNORECASE)


def is_transient(message: str) -> bool:
    """Whether sbatch's complaint may pass by itself: the controller is away, or the queue is full."""
    return isinstance(failure("sbatch", 1, message), SlurmUnreachable) or bool(_QUEUE_IS_FULL.search(message))


def check_extra(extra: str) -> None:
    """Refuse sbatch options under which no warning can reach the trainer.

    Raises:
        SlurmError: ``--signal`` is addressed to the batch shell (``B:``), which has no trap and dies of it.
    """
    found = re.search(r"--signal[= ]?['\"]?([A-Za-z]*B[A-Za-z]*:\S*)", extra)
    if found:
        raise SlurmError(
            f"slurm_extra has --signal={found.group(1).strip(chr(39))}: with B: the warning goes to the batch shell and "
            "never reaches the trainer; write --signal=USR1@120"
        )

"""Run one Slurm command and tell its kinds of failure apart."""

import os
import re
import subprocess
from collections.abc import Sequence

from unbroken.errors import SlurmError

TIMEOUT_S = 20.0
"""Longest wait for one answer, seconds. The commands themselves give up after MessageTimeout, usually 10 s."""

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S%z"
"""How Slurm is asked to print times: local time with its offset, so that two hosts mean the same."""


class SlurmMissing(SlurmError):
    """The command is not on PATH, or it finds no slurm.conf: there is no Slurm here."""


class SlurmUnreachable(SlurmError):
    """The controller or the accounting daemon does not answer now: ask again later."""


class SlurmRefused(SlurmError):
    """Slurm answered and said no: asking again gives the same."""


class UnknownJob(SlurmRefused):
    """Slurm does not know the job (any more): purged from the controller after MinJobAge, or never there."""


class AccountingDisabled(SlurmRefused):
    """The cluster keeps no accounting (AccountingStorageType=none)."""


# Matched in this order against stderr. Sources: slurm_errno.c of 22.05 and 24.11, and answers seen on the test cluster.
_KINDS: tuple[tuple[type[SlurmError], str], ...] = (
    (UnknownJob, r"invalid job id specified|invalid job/step|already completing or completed|no job id specified"),
    (AccountingDisabled, r"accounting storage is disabled|running without accounting|slurm_acct_storage.*none"),
    (
        SlurmMissing,
        r"could not establish a configuration source|failed to fetch config|unable to process configuration file"
        r"|unable to determine this slurmd|no slurm\.conf",
    ),
    (
        SlurmUnreachable,
        r"unable to contact slurm controller|backend connect failure|socket timed out|connection refused"
        r"|connection reset|communications? (connection|send/receive|shutdown)|zero bytes were transmitted"
        r"|unable to connect to database|problem talking to (the )?database|slurmdbd: .*(open|connect|conn)"
        r"|sending persistconninit|slurmdb.* connect|transport endpoint|no route to host|network is unreachable"
        r"|resource temporarily unavailable|temporarily unable|in standby mode|slurm database error"
        r"|protocol authentication error|munge",
    ),
)
_MISSING = "there is no Slurm on this machine ({}); call this on a login node of the cluster"
_OPTION_VARIABLES = ("SQUEUE_", "SACCT_", "SINFO_", "SCONTROL_", "SCANCEL_")


def clean_environment() -> dict[str, str]:
    """The environment without a person's display options, which would change what the commands print."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OPTION_VARIABLES)}
    return {**kept, "LC_ALL": "C", "SLURM_TIME_FORMAT": TIME_FORMAT}


def run(argv: Sequence[str], timeout_s: float = TIMEOUT_S) -> str:
    """The standard output of ``argv``. No shell is involved, so no argument is ever interpreted.

    Raises:
        SlurmMissing: the command or its configuration is not here.
        SlurmUnreachable: no answer within ``timeout_s`` seconds, or the daemon is away.
        SlurmRefused: Slurm said no; UnknownJob and AccountingDisabled are its two special kinds.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=clean_environment(),
            check=False,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise SlurmMissing(_MISSING.format(f"{argv[0]} is not installed")) from error
    except OSError as error:
        raise SlurmRefused(f"{argv[0]} could not be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise SlurmUnreachable(f"{argv[0]} did not answer within {timeout_s:g} s") from error
    if done.returncode != 0 or _failed_quietly(done.stderr):
        raise failure(argv[0], done.returncode, done.stderr or done.stdout)
    return done.stdout


def _failed_quietly(stderr: str) -> bool:
    """sacct may exit 0 although it could not ask slurmdbd, and prints nothing else than the error."""
    lowered = stderr.lower()
    return "error" in lowered and any(kind is SlurmUnreachable and re.search(p, lowered) for kind, p in _KINDS)


def failure(command: str, code: int, message: str) -> SlurmError:
    """The fitting error for what ``command`` wrote before it exited with ``code``."""
    said = " ".join(message.split()) or "no message"
    kind = next((kind for kind, pattern in _KINDS if re.search(pattern, message.lower())), SlurmRefused)
    if kind is SlurmMissing:
        return SlurmMissing(_MISSING.format(f"{command} finds no slurm.conf"))
    if kind is AccountingDisabled:
        return AccountingDisabled(f"{command}: this cluster keeps no accounting (AccountingStorageType=none)")
    return kind(f"{command} failed with exit code {code}: {said[:500]}")

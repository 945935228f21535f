"""How much memory the next attempt asks for, after attempts that were killed for it."""

from collections.abc import Mapping
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.status import read_status

DEFAULT_GROWTH = 1.5
MOST_STEPS = 20
"""No more than so many kills count: beyond, no node has the memory and a float would overflow."""


def memory_to_ask(paths: RunPaths, base_mb: int, operational: Mapping[str, Any]) -> int:
    """Megabytes to ask Slurm for: ``base_mb`` times ``memory_growth`` for each out-of-memory kill, up to the cap.

    Never raises: Snakemake stops the whole call, other runs included, when a resource function does.
    """
    try:
        kills = read_status(paths).out_of_memory_count
    except (RunDirectoryError, OSError):
        kills = 0
    growth = float(operational.get("memory_growth") or DEFAULT_GROWTH)
    asked = int(base_mb * growth ** min(kills, MOST_STEPS))
    cap = operational.get("memory_cap_mb")
    return max(base_mb, min(asked, int(cap))) if cap else asked

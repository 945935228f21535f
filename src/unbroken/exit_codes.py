"""Every exit code with a meaning of its own, in one place.

Snakemake never sees these numbers (its job step turns each into 1), Slurm's accounting and the launcher do.
"""

from typing import Final

COMPLETED: Final = 0
FAILED: Final = 1
"""A crash, or an end without a result: the same Snakemake call does not train the run again."""
USAGE: Final = 2
RESUMABLE: Final = 42
"""The state is saved, start me again."""
GAVE_UP: Final = 43
"""A resumable exit, but the budget is used or nothing advances any more."""
IDENTITY_MISMATCH: Final = 44
"""The run directory belongs to another setting."""
LEASE_HELD: Final = 45
"""Another live trainer holds the run directory."""

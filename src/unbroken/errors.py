"""The errors a person can cause: each names the culprit, its value and the fix."""


class UnbrokenError(Exception):
    """Base of every error that is shown as one message, without a traceback."""

    exit_code = 1


class CollectionError(UnbrokenError):
    """A collection file, or config.yaml, that cannot be used as it is written."""


class RunDirectoryError(UnbrokenError):
    """A file of a run directory is missing, unreadable or from another version."""


class IdentityMismatch(UnbrokenError):
    """A run directory belongs to another setting than the one to be trained."""

    exit_code = 44


class LeaseHeld(UnbrokenError):
    """Another live trainer holds the run directory."""

    exit_code = 45


class CheckpointError(UnbrokenError):
    """A checkpoint cannot be written, or none of those there can be read."""


class SlurmError(UnbrokenError):
    """A Slurm command is missing, refused, or answered something unexpected."""

"""A disk that gets full at a chosen moment: a small tmpfs where we may mount one, else a limit on the size of files."""

import contextlib
import errno
import os
import resource
import subprocess
from pathlib import Path
from typing import Protocol

_MOUNT_S = 20.0
_MOST_BYTES = 2 << 30
"""A larger tmpfs would take too much memory; the limit on file sizes does as well then."""
_SLACK_BYTES = 8 << 20


class Disk(Protocol):
    """Where one case of the fault lives."""

    name: str

    def fill(self, trainer: int | None, largest: int) -> None:
        """From now on a checkpoint does not fit. ``largest``: bytes of the undisturbed run's last.pt."""
        ...

    def free(self) -> None:
        """There is room again."""
        ...

    def close(self) -> None:
        """Leave nothing mounted."""
        ...


class SmallMount:
    """A tmpfs of its own, filled up by a file."""

    def __init__(self, folder: Path, size: int) -> None:
        self.name = f"a tmpfs of {size >> 20} MB, filled up"
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._filler = folder / "filler"
        _run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "unbroken-drill", str(folder)])

    def fill(self, trainer: int | None, largest: int) -> None:
        block = bytes(1 << 20)
        with open(self._filler, "wb", buffering=0) as file:
            while block:
                try:
                    if file.write(block) < len(block):
                        block = block[: len(block) // 2]
                except OSError as error:
                    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                        raise
                    block = block[: len(block) // 2]

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        for words in (["umount"], ["umount", "-l"]):
            with contextlib.suppress(OSError):
                _run([*words, str(self.folder)])
                return


class SizeLimit:
    """RLIMIT_FSIZE on the trainer: a file longer than half of last.pt cannot be written (EFBIG instead of ENOSPC)."""

    def __init__(self, why: str) -> None:
        self.name = f"RLIMIT_FSIZE on the trainer ({why})"

    def fill(self, trainer: int | None, largest: int) -> None:
        if trainer is not None:
            with contextlib.suppress(ProcessLookupError):
                _, hard = resource.prlimit(trainer, resource.RLIMIT_FSIZE)
                resource.prlimit(trainer, resource.RLIMIT_FSIZE, (max(largest // 2, 1), hard))

    def free(self) -> None:
        """Nothing to do: the limit ended with its process."""

    def close(self) -> None:
        """Nothing to do."""


def small_disk(folder: Path, run_bytes: int, largest: int) -> Disk:
    """A disk for one run of ``run_bytes``, with room for the pair of checkpoints and one more."""
    size = run_bytes + 6 * largest + _SLACK_BYTES
    if os.geteuid() != 0:
        return SizeLimit("not root, so nothing can be mounted")
    if size > _MOST_BYTES:
        return SizeLimit("the checkpoints are too large for a disk in memory")
    try:
        return SmallMount(folder, size)
    except OSError as error:
        return SizeLimit(f"no mount here: {error.strerror or error}")


def _run(words: list[str]) -> None:
    """Raises OSError where the command is missing or refuses."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_MOUNT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{words[0]} did not end") from error
    if done.returncode:
        raise OSError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{words[0]} refused")


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())

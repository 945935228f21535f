"""metrics.csv: one row a logged step, nothing in it that depends on time; no step stands twice after a resume."""

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unbroken.errors import RunDirectoryError

ALWAYS = ("step", "epoch", "lr", "loss")
"""The first columns; the trainer's own follow."""


def number(value: Any) -> str:
    """A value in the file: the shortest text that reads back as the same number, "" for none."""
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


class MetricsFile:
    """The open file of one attempt."""

    def __init__(self, path: Path, columns: Sequence[str] = ()) -> None:
        self.path = path
        self.columns = (*ALWAYS, *columns)
        self._file: io.FileIO | None = None
        self._size = 0
        self.lost = 0
        """Bytes that stood in the file when the checkpoint was made, and do so no more; from ``open`` on."""

    @property
    def size(self) -> int:
        """Bytes written so far; goes into the checkpoint."""
        return self._size

    def open(self, step: int, size: int | None, row_pending: bool = False) -> None:
        """Start the file, or cut it back to where it was when the checkpoint was made.

        Args:
            step: committed effective batches of the checkpoint; 0 starts a new file.
            size: bytes the file had then, or None if unknown: rows are then judged by their step.
            row_pending: the row of ``step`` is still to come.

        Raises:
            RunDirectoryError: it has other columns.
            OSError: it cannot be written.
        """
        header = (",".join(self.columns) + "\n").encode()
        kept = self._kept(header, step, size, row_pending)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "r+b" if self.path.exists() else "x+b", buffering=0)  # noqa: SIM115
        if not kept:
            self._file.truncate(0)
            self._file.write(header)
        else:
            self._file.truncate(kept)
        self._size = self._file.seek(0, os.SEEK_END)
        self.lost = max(0, (size or 0) - self._size)

    def _kept(self, header: bytes, step: int, size: int | None, row_pending: bool) -> int:
        """How many bytes of the file stay."""
        if not self.path.exists() or (step == 0 and not size):
            return 0
        content = self.path.read_bytes()
        if not content.startswith(header):
            if content.strip() and not header.startswith(content):
                raise RunDirectoryError(
                    f"{self.path} has other columns than {','.join(self.columns)}: move it away to go on"
                )
            return 0
        if size is not None and len(header) <= size <= len(content) and content[size - 1 : size] == b"\n":
            return size
        kept = len(header)
        for line in content[len(header) :].splitlines(keepends=True):
            first = line.split(b",", 1)[0]
            if not line.endswith(b"\n") or not first.isdigit() or int(first) > step - (1 if row_pending else 0):
                break
            kept += len(line)
        return kept

    def row(self, values: Mapping[str, Any]) -> None:
        """Append one row; columns without a value stay empty.

        Raises:
            RunDirectoryError: the disk does not take it.
        """
        assert self._file is not None, "open() comes first"
        line = (",".join(number(values.get(column)) for column in self.columns) + "\n").encode()
        try:
            self._file.write(line)
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write {self.path} ({error.strerror}): mend that, then start the run again"
            ) from error
        self._size += len(line)

    def sync(self) -> None:
        """Wait until the disk has every row; before a checkpoint that counts on them."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

"""How much to measure, and where."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """One call of the benchmarks."""

    quick: bool
    folder: Path
    """For files of the measurements; on the disk that is to be measured."""

    def rounds(self, full: int, quick: int) -> int:
        return quick if self.quick else full

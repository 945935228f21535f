"""Where a run stands, counted in effective batches: pure arithmetic, no torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Plan:
    """How much a run trains. One effective batch is one optimizer step."""

    records: int
    batch_size: int
    """Records a micro-batch and a process."""
    epochs: int = 1
    accumulation: int = 1
    """Micro-batches an effective batch."""
    world_size: int = 1
    drop_last: bool = False
    """Leave out an effective batch that is not full."""
    steps: int | None = None
    """Stop after so many effective batches, in the middle of an epoch if need be."""

    def __post_init__(self) -> None:
        for name in ("records", "batch_size", "epochs", "accumulation", "world_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps is {self.steps}; it must be at least 1")
        if self.per_epoch == 0:
            raise ValueError(f"{self.records} records do not fill one effective batch of {self.effective_batch}")

    @cached_property
    def effective_batch(self) -> int:
        """Records an effective batch, over all processes."""
        return self.batch_size * self.accumulation * self.world_size

    @cached_property
    def per_epoch(self) -> int:
        """Effective batches an epoch."""
        full, rest = divmod(self.records, self.effective_batch)
        return full + (1 if rest and not self.drop_last else 0)

    @cached_property
    def total_steps(self) -> int:
        """Effective batches of the whole run."""
        whole = self.per_epoch * self.epochs
        return whole if self.steps is None else min(self.steps, whole)

    def position(self, global_step: int) -> tuple[int, int]:
        """(start_epoch, resume_batch_idx) after ``global_step`` committed effective batches.

        ``resume_batch_idx`` is how many effective batches of ``start_epoch`` are committed; after the last one of an
        epoch it is 0 of the next.

        Raises:
            ValueError: the step is negative or beyond the end of the run.
        """
        if not 0 <= global_step <= self.total_steps:
            raise ValueError(f"global_step {global_step} is not between 0 and {self.total_steps}")
        return divmod(global_step, self.per_epoch)

    def ends_epoch(self, global_step: int) -> bool:
        """Whether an epoch, or the run, ends with this effective batch."""
        return global_step > 0 and (global_step % self.per_epoch == 0 or global_step == self.total_steps)

    def group(self, batch_idx: int) -> tuple[int, int]:
        """(first, end): which places of the epoch's order make up one effective batch."""
        first = batch_idx * self.effective_batch
        return first, min(first + self.effective_batch, self.records)

    def micro_batches(self, batch_idx: int, rank: int = 0) -> Iterator[tuple[int, int]]:
        """(first, end) of each micro-batch of one process in one effective batch; empty ones have first == end."""
        first, end = self.group(batch_idx)
        for index in range(self.accumulation):
            start = first + (index * self.world_size + rank) * self.batch_size
            yield min(start, end), min(start + self.batch_size, end)

"""Several processes as one run: they stop at the same step, rank 0 decides and saves.

Gradients are summed in one flat buffer in the order of the parameters, not by DistributedDataParallel: DDP rebuilds its
buckets after the first iteration, so a resumed run would add in another order than an undisturbed one.
"""

import contextlib
import datetime
import io
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import distributed as dist

from unbroken.errors import UnbrokenError

T = TypeVar("T")
TIMEOUT = datetime.timedelta(minutes=30)


class RankError(UnbrokenError):
    """What rank 0 found out, said by the other ranks too."""


@dataclass(frozen=True)
class World:
    """This process among the processes of the run; alone, everything here is for nothing and costs nothing."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    group: Any = None
    """A gloo group for decisions; the gradients go over the default group."""

    @property
    def first(self) -> bool:
        return self.rank == 0

    @classmethod
    def join(cls) -> "World":
        """As torchrun's environment says (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT)."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
        if not dist.is_initialized():
            if torch.cuda.is_available():
                torch.cuda.set_device(local % torch.cuda.device_count())
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
        group = dist.new_group(backend="gloo", timeout=TIMEOUT)
        return cls(rank, size, local, group)

    def leave(self) -> None:
        """End the process group, if there is one."""
        if self.size > 1 and dist.is_initialized():
            with contextlib.suppress(RuntimeError, ValueError):
                dist.destroy_process_group()

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Each flag, true where any rank says so: how all ranks stop at one step after a signal to one of them."""
        if self.size == 1:
            return flags
        said = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(said, op=dist.ReduceOp.MAX, group=self.group)
        return tuple(bool(value) for value in said.tolist())

    def decide(self, function: Callable[[], T]) -> T:
        """Let rank 0 call ``function`` and give its result (or its error) to all: no two ranks see different disks.

        Raises:
            UnbrokenError: what rank 0 raised, with the same exit code.
        """
        if self.size == 1:
            return function()
        box: list[Any] = [None, None]
        error: BaseException | None = None
        if self.first:
            try:
                box[0] = _pack(function())
            except Exception as caught:
                error = caught
                box[1] = (str(caught), getattr(caught, "exit_code", 1))
        dist.broadcast_object_list(box, src=0, group=self.group)
        if error is not None:
            raise error
        if box[1] is not None:
            told = RankError(box[1][0])
            told.exit_code = box[1][1]
            raise told
        result: T = _unpack(box[0])
        return result

    def gather(self, value: Any) -> list[Any]:
        """On rank 0 the value of every rank, in order; elsewhere an empty list."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.first else None
        dist.gather_object(_pack(value), values, dst=0, group=self.group)
        return [_unpack(item) for item in values or []]

    def same_start(self, tensors: Iterable[torch.Tensor]) -> None:
        """Give every rank the values of rank 0."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)

    def sum_gradients(self, parameters: Iterable[torch.Tensor]) -> None:
        """Add up the gradients of all ranks, in one flat buffer a dtype; a rank without a gradient adds zero."""
        if self.size == 1:
            return
        by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
        for parameter in parameters:
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                by_dtype.setdefault(parameter.grad.dtype, []).append(parameter.grad)
        for gradients in by_dtype.values():
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            dist.all_reduce(flat)
            for gradient, part in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks of a value that each has already weighted."""
        if self.size == 1:
            return value
        total = value.detach().clone()
        dist.all_reduce(total)
        return total


def _pack(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _unpack(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)

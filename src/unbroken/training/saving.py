"""When and how a session saves: the room, the interval, the payload of all ranks, what is recorded of it."""

import time
from typing import Any

from unbroken.run_dir.unwarned import observe
from unbroken.training import payload, rng
from unbroken.training.async_store import AsyncStore, Written
from unbroken.training.checkpoint import CheckpointStore
from unbroken.training.distributed import World
from unbroken.training.interval import Interval
from unbroken.training.outputs import Outputs
from unbroken.training.progress import say
from unbroken.training.records import Records
from unbroken.training.room import free_memory
from unbroken.training.space import require_space, size_text
from unbroken.training.state import State


class Saver:
    """The saves of one attempt: periodic ones behind the training where the store can, the others durable at once."""

    def __init__(
        self,
        store: CheckpointStore,
        state: State,
        world: World,
        records: Records,
        outputs: Outputs,
        interval: int | str,
    ) -> None:
        """Raises CheckpointError where the checkpoints of this run would not fit on the disk."""
        self.store, self.state, self.world, self.records, self.outputs = store, state, world, records, outputs
        size = payload.size_of(state.payload(None)) + payload.optimizer_bytes_to_come(state.parts.optimizer)
        there = sum(path.exists() for path in (store.paths.last, store.paths.previous))
        world.decide(lambda: require_space(store.folder, size, 3 - there))
        collection = store.paths.root.parent.parent
        self.interval = Interval(interval, store.retention.keep_every, size / 200e6, lambda: observe(collection))
        self._saved: tuple[int, int] | None = None
        room = isinstance(store, AsyncStore) and world.decide(lambda: _room_for_a_copy(size))
        self._behind = store if isinstance(store, AsyncStore) and room else None
        """The store that writes periodic saves behind; None: they are written at once."""
        self._stall_s = 0.0

    @property
    def saved(self) -> bool:
        """Whether the disk has the present state, or will have it after ``flush``."""
        return self._saved == self.state.key

    def stands(self) -> None:
        """The present state was just read from the disk."""
        self._saved = self.state.key

    def save(self) -> None:
        """Save now, durably; all ranks call it.

        Raises:
            CheckpointError: the disk does not take it; the pair before is intact.
        """
        began = time.monotonic()
        state = self.state
        self.outputs.sync()
        content = self._content()
        sidecar = self.world.decide(lambda: self.store.save(content, state.note()))
        self._saved = state.key
        cost = time.monotonic() - began
        self.interval.saved(cost, cost)
        self._record(sidecar, cost, cost)

    def save_periodic(self) -> None:
        """Save behind the training where that can be done, else as ``save``; all ranks call it.

        Raises:
            CheckpointError: the disk does not take it, or did not take the one before.
        """
        store, state = self._behind, self.state
        if store is None:
            return self.save()
        began = time.monotonic()
        self.flush()
        content = self._content()
        self.world.decide(lambda: store.begin(content, state.note(), self.outputs.sync))
        self._saved = state.key
        self._stall_s = time.monotonic() - began
        self.interval.began()

    def _content(self) -> dict[str, Any]:
        content = self.state.payload(self.outputs.metrics_bytes)
        content["rng"] = self.world.gather(rng.capture())
        return content

    def poll(self) -> tuple[bool, bool]:
        """(a periodic save is due, one behind the training has failed: then ``flush`` on every rank says so).

        Records the save that was written behind the training, if it is on the disk by now. Rank 0 keeps the time for
        all ranks.
        """
        behind, broken = self._behind, False
        if behind is not None and behind.ended:
            broken = behind.broken
            if not broken:
                self._written(behind.finish())
        return self.world.first and self.interval.due(self.state.global_step), broken

    def flush(self) -> None:
        """Wait until the disk has every save; all ranks call it.

        Raises:
            CheckpointError: a save behind the training failed; the pair before it is intact.
        """
        if self._behind is not None:
            self._written(self.world.decide(self._behind.finish))

    def close(self) -> None:
        """However the attempt ends: let what is being written be finished, so that it is not lost."""
        if self._behind is not None:
            try:
                self._written(self._behind.finish())
            except Exception as error:
                say(f"the last save behind the training is lost: {error}")

    def _written(self, written: Written | None) -> None:
        if written is not None:
            self.interval.saved(self._stall_s, written.seconds)
            self._record(written.sidecar, written.seconds, self._stall_s)

    def _record(self, sidecar: dict[str, Any], seconds: float, stall_s: float) -> None:
        step = sidecar["global_step"]
        times = {"seconds": round(seconds, 4), "stall_s": round(stall_s, 4)}
        self.records.event("checkpoint_saved", global_step=step, bytes=sidecar["bytes"], **times)
        self.records.status(global_step=step, total_steps=self.state.plan.total_steps)


def _room_for_a_copy(size: int) -> bool:
    """Whether the memory takes a second copy of the training state with as much to spare."""
    free = free_memory()
    if free is None or free >= 2 * size:
        return True
    say(f"async_saves is off: a copy of the state takes {size_text(size)} and {size_text(free)} of memory are free")
    return False

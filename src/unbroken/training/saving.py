"""When and how a session saves: the room, the interval, the payload of all ranks, what is recorded of it."""

import time

from unbroken.training import payload, rng
from unbroken.training.checkpoint import CheckpointStore
from unbroken.training.distributed import World
from unbroken.training.interval import Interval
from unbroken.training.outputs import Outputs
from unbroken.training.records import Records
from unbroken.training.space import require_space
from unbroken.training.state import State


class Saver:
    """The saves of one attempt. An asynchronous store only has to offer ``save`` and ``flush``."""

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
        self.interval = Interval(interval, store.retention.keep_every, size / 200e6)
        self._saved: tuple[int, int] | None = None

    @property
    def saved(self) -> bool:
        """Whether the disk has the present state."""
        return self._saved == self.state.key

    def stands(self) -> None:
        """The present state was just read from the disk."""
        self._saved = self.state.key

    def due(self) -> bool:
        """Whether a periodic save is due."""
        return self.interval.due(self.state.global_step)

    def save(self) -> None:
        """Save now, durably; all ranks call it.

        Raises:
            CheckpointError: the disk does not take it; the pair before is intact.
        """
        began = time.monotonic()
        state = self.state
        self.outputs.sync()
        content = state.payload(self.outputs.metrics_bytes)
        content["rng"] = self.world.gather(rng.capture())
        sidecar = self.world.decide(lambda: self.store.save(content, state.note()))
        self._saved = state.key
        cost = time.monotonic() - began
        self.interval.saved(cost)
        details = {"global_step": state.global_step, "bytes": sidecar["bytes"], "seconds": round(cost, 4)}
        self.records.event("checkpoint_saved", **details)
        self.records.status(global_step=state.global_step, total_steps=state.plan.total_steps)

"""What ``training.session`` does around our own loop, for a loop that is not ours: open, rows, saves, stop, result."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import torch

from unbroken import exit_codes
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import UnbrokenError
from unbroken.run_dir.files import write_json
from unbroken.run_dir.unwarned import observe
from unbroken.training import opening, payload, preemption, result, resume, rng
from unbroken.training.checkpoint import CheckpointStore
from unbroken.training.evaluation import number
from unbroken.training.guard import Identity
from unbroken.training.interval import Interval
from unbroken.training.outputs import Outputs
from unbroken.training.parts import Parts
from unbroken.training.progress import say
from unbroken.training.records import Records
from unbroken.training.retention import Retention
from unbroken.training.state import environment

MakeStore = Callable[[RunPaths, Retention], CheckpointStore]


class Attempt:
    """One start of a foreign trainer in its run directory. All random generators are seeded when it is made."""

    def __init__(self, columns: Sequence[str], store: MakeStore = CheckpointStore, **operational: Any) -> None:
        """Open what UNBROKEN_RUN_DIR, UNBROKEN_CONFIG and UNBROKEN_SEED name.

        Args:
            columns: further columns of metrics.csv; their last values also go into result.json.
            operational: operational keys that win over the config's.

        Raises:
            UnbrokenError: as ``Session.open``; or several processes. Nothing was written.
        """
        preemption.install()
        self.flag = preemption.FLAG
        self.request = request = opening.Request.of(**operational)
        self.graceful = request.flag("enable_graceful_shutdown")
        if not self.graceful:
            preemption.uninstall()
        require_one_process(int(os.environ.get("WORLD_SIZE", "1")))
        self.paths, self.config, self.seed = request.paths, request.config, request.seed
        self.columns = tuple(columns)
        self._open(store(self.paths, Retention(*(request.count(k) for k in ("keep_last", "keep_every", "keep_best")))))
        rng.pin_threads(int(request.config.get("threads", 1)))
        self.device = opening.device(request.config)
        rng.make_deterministic(self.device.type)
        rng.seed_all(self.seed)

    def _open(self, store: CheckpointStore) -> None:
        request = self.request
        self.store = store
        self.identity = Identity.of(request.config, request.seed, str(request.config.get("trainer", "command")))
        self.records = Records.of(self.paths)
        found = resume.discover(self.paths, store, self.identity, request.flag("auto_resume"))
        self.finished = found.identity_there and self.paths.result.exists()
        if not self.finished:
            opening.prepare(request, self.identity, store, found, self.records)
        self.found = found.found
        """The checkpoint that training goes on from, or None."""
        there: dict[str, Any] = self.found.payload if self.found else {"position": {"global_step": 0}}
        self.saved_step: int = there["position"]["global_step"]
        self.values: dict[str, Any] = dict(there.get("values", {}))
        """The newest value of each of ``columns``."""
        self._row: dict[str, Any] = dict(there.get("pending_row", {}))
        self._outputs = Outputs()

    def begin(self, total_steps: int) -> None:
        """Training starts, or goes on, now: the random states, metrics.csv cut back to the checkpoint, the records."""
        there = self.found.payload if self.found else None
        here = environment(self.device, 1)
        inexact = resume.check_environment(self.paths, there, here, "", False)
        size = there["metrics_bytes"] if there is not None else None
        position = resume.Resumed(self.saved_step, pending_row=self._row or None, metrics_bytes=size)
        if there is not None:
            rng.restore(there["rng"][0])
        self.total_steps = total_steps
        options = self.request.operational
        self._outputs.open(
            self.paths, self.records, self.columns, position, total_steps, options, self.config, self.device
        )
        collection = self.paths.root.parent.parent
        self.interval = Interval(
            options["checkpoint_interval"], self.store.retention.keep_every, observe=lambda: observe(collection)
        )
        self.records.status(
            total_steps=total_steps, global_step=self.saved_step, **({"exact": False} if inexact else {})
        )
        if there is not None:
            self.records.event("resumed", global_step=self.saved_step, inexact=list(inexact))
            say(f"resumed from checkpoint: global_step={self.saved_step}")
        if inexact:
            say(f"this resume is inexact: {'; '.join(inexact)}")

    def logs(self, step: int) -> bool:
        """Whether metrics.csv has a row for this step (the last one of an epoch always has)."""
        return step % max(self.request.count("log_every"), 1) == 0

    def note(self, step: int, **values: Any) -> None:
        """Values for the row of ``step``; it is written when the next step's come, or at the end."""
        if self._row.get("step", step) != step:
            self.flush_row()
        known = {name: number(value) for name, value in values.items()}
        self._row = {**self._row, "step": step, **known}
        self.values |= {name: value for name, value in known.items() if name in self.columns}

    def flush_row(self) -> None:
        """Write the row that is waiting, if there is one."""
        row, self._row = self._row, {}
        if row:
            self._outputs.row(row, row["step"] == self.total_steps)

    @property
    def stop(self) -> bool:
        return self.flag.requested

    def due(self, step: int) -> bool:
        """Whether a save is due at this boundary: periodic, or because of a signal."""
        return step != self.saved_step and (self.stop or self.interval.due(step))

    def save(self, step: int, epoch: float, further: Mapping[str, Any]) -> None:
        """Save durably and atomically: ``further`` is the framework's own state.

        Raises:
            CheckpointError: the disk does not take it, or something in it could not be loaded again.
        """
        began = time.monotonic()
        self._outputs.sync()
        content = {
            **{key: payload.plain(value, key) for key, value in further.items()},
            "format": payload.FORMAT,
            "config_snapshot": payload.plain(self.identity.config, "config"),
            "config_hash": self.identity.config_hash,
            "seed": self.seed,
            "position": {"global_step": step},
            "environment": environment(self.device, 1),
            "values": self.values,
            "pending_row": self._row,
            "metrics_bytes": self._outputs.metrics_bytes,
            "rng": [rng.capture()],
        }
        note = {"global_step": step, "total_steps": self.total_steps, "epoch": epoch, "world_size": 1}
        sidecar = self.store.save(content, {**note, "config_hash": self.identity.config_hash, "metric": None})
        self.saved_step = step
        seconds = time.monotonic() - began
        self.interval.saved(seconds, seconds)
        self.records.event("checkpoint_saved", global_step=step, bytes=sidecar["bytes"], seconds=round(seconds, 4))
        self.records.status(global_step=step, total_steps=self.total_steps)

    def leave(self, step: int) -> NoReturn:
        """After a signal, with everything saved: record it, end with 42."""
        saved = self.saved_step == step and self.store.exists()
        self.records.stopped(self.flag.signal_name or "a signal", step, saved)
        what = f"saved at step {step}" if saved else "with nothing new to save"
        say(f"stopped by {self.flag.signal_name}, {what}: start me again")
        self._outputs.finish(preempted=True)
        self.close()
        raise SystemExit(exit_codes.RESUMABLE)

    def complete(self, step: int, model: torch.nn.Module) -> None:
        """Write result.json: the run is finished."""
        parts = Parts(model, cast(Any, None))  # the result knows nothing of the optimizer
        write_json(self.paths.result, result.document(self.identity, step, self.values, parts))
        self.records.completed(step)
        self._outputs.finish(preempted=False)
        self.finished = True
        self.close()
        say(f"finished: {self.paths.result}")

    def failed(self, error: BaseException) -> None:
        """The trainer ends with an error."""
        cause = error.__cause__ if isinstance(error, SystemExit) else error
        if cause is not None:  # of a SystemExit: the mistake that was told in one message
            self.records.failed(cause)
        self.close()

    def close(self) -> None:
        self._outputs.close()
        self.records.release()


def require_one_process(number: int) -> None:
    """Raises UnbrokenError where a run has several processes."""
    if number != 1:
        raise UnbrokenError(
            f"this adapter trains in one process, not in {number}: give it one device, or write the loop with "
            "unbroken.run(), which takes several"
        )

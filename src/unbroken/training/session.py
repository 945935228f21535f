"""One run from its first look into the run directory to its end: resume, order, commit, save, stop, result."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from unbroken import exit_codes
from unbroken.errors import UnbrokenError
from unbroken.run.files import write_json
from unbroken.training import opening, order, payload, preemption, profiling, resume, result, rng, tracking
from unbroken.training.checkpoint import CheckpointStore
from unbroken.training.distributed import World
from unbroken.training.guard import Identity
from unbroken.training.interval import Interval
from unbroken.training.metrics import MetricsFile
from unbroken.training.parts import Parts
from unbroken.training.position import Plan
from unbroken.training.progress import Progress, say
from unbroken.training.records import Records
from unbroken.training.retention import Retention
from unbroken.training.space import require_space

Evaluate = Callable[[Callable[[], None]], Mapping[str, float]]
"""Called with ``check``, which it calls every second or so; returns the values of one evaluation."""


@dataclass(frozen=True)
class Batch:
    """One effective batch to train."""

    epoch: int
    index: int
    """Its place in the epoch, from 0."""
    step: int
    """Effective batches committed before it."""
    records: torch.Tensor
    """int64: the record indices of all processes, in order."""
    logged: bool
    """Whether its loss will be asked for."""


class Session:
    """An open run directory. ``with Session.open(...) as run``; then ``attach``, ``batches``, ``commit``, ``complete``."""

    def __init__(
        self,
        request: opening.Request,
        identity: Identity,
        store: CheckpointStore,
        world: World,
        found: resume.Discovery,
    ) -> None:
        self.request, self.identity, self.store, self.world = request, identity, store, world
        self.paths, self.config, self.seed = request.paths, request.config, request.seed
        self.flag = preemption.FLAG
        self.records = Records.of(self.paths, silent=not world.first)
        self.device = (
            torch.device("cuda", torch.cuda.current_device()) if _wants_cuda(self.config) else torch.device("cpu")
        )
        self.global_step = 0
        self.finished = found.identity_there and self.paths.result.exists()
        """result.json is there already: nothing is left to train."""
        self._found = found.found
        self._log_every = max(request.count("log_every"), 1)
        self._saved: tuple[int, int] | None = None
        self._evaluate: Evaluate | None = None
        self._evaluated_step = 0
        self.evaluation: Mapping[str, Any] = {}
        """Values of the newest finished evaluation."""
        self._row: dict[str, Any] | None = None
        self._order_epoch = -1
        self._order = torch.empty(0, dtype=torch.int64)
        self._sampler_seed: int | None = None
        self.metrics: MetricsFile | None = None
        self.tracker: tracking.Tracker = tracking.OFF
        self.profiler: profiling.Profiler | None = None

    @classmethod
    def open(
        cls,
        run_dir: Path | str | None = None,
        config: Path | str | Mapping[str, Any] | None = None,
        seed: int | None = None,
        *,
        trainer: str | None = None,
        ckpt_dir: Path | str | None = None,
        resume_from: Path | str | None = None,
        auto_resume: bool | None = None,
        checkpoint_interval: int | str | None = None,
        **operational: Any,
    ) -> "Session":
        """Open a run directory; what is not given comes from UNBROKEN_RUN_DIR, UNBROKEN_CONFIG, UNBROKEN_SEED.

        Raises:
            IdentityMismatch: the directory belongs to another run; nothing was written.
            CheckpointError: there are checkpoints, and none can be read.
            RunDirectoryError, CollectionError: no directory, or a config that cannot be read.
        """
        preemption.install()
        request = opening.Request.of(
            run_dir,
            config,
            seed,
            ckpt_dir,
            auto_resume=auto_resume,
            checkpoint_interval=checkpoint_interval,
            **operational,
        )
        if not request.flag("enable_graceful_shutdown"):
            preemption.uninstall()
        identity = Identity.of(request.config, request.seed, trainer or str(request.config.get("trainer", "command")))
        keep = Retention(*(request.count(key) for key in ("keep_last", "keep_every", "keep_best")))
        store = CheckpointStore(request.paths, keep)
        world = World.join()
        source = Path(resume_from) if resume_from else None
        found = world.decide(
            lambda: resume.discover(request.paths, store, identity, request.flag("auto_resume"), source)
        )
        session = cls(request, identity, store, world, found)
        if not session.finished:
            world.decide(lambda: opening.prepare(request, identity, store, found, session.records))
        rng.pin_threads(int(request.config.get("threads", 1)))
        rng.make_deterministic(session.device.type)
        rng.seed_all(request.seed)
        return session

    def attach(
        self,
        parts: Parts,
        plan: Plan,
        *,
        columns: Sequence[str] = (),
        fingerprint: str = "",
        evaluate: Evaluate | None = None,
        evaluate_every: int = 0,
    ) -> resume.Resumed:
        """Hand over what is trained, freshly built, and get it back in the state where the run stands.

        Args:
            columns: further columns of metrics.csv.
            fingerprint: SHA-256 of the data; a run is not continued on other data.
            evaluate: runs at the end of each epoch, and every ``evaluate_every`` effective batches.

        Raises:
            CheckpointError: no room for the checkpoints, or a saved state that does not fit.
            IdentityMismatch: other data, or another number of processes without permission.
        """
        self.parts, self.plan, self.fingerprint = parts, plan, fingerprint
        self._evaluate, self._evaluate_every = evaluate, evaluate_every
        saved = self._found.payload if self._found is not None else None
        peeked = order.peek_sampler_seed()
        inexact: tuple[str, ...] = ()
        if saved is not None:
            allowed = self.request.flag("allow_world_size_change")
            here = self._environment()
            inexact = resume.check_environment(self.paths, saved, here, fingerprint, allowed)
        self.world.same_start([*parts.model.parameters(), *parts.model.buffers()])
        if self.world.rank:
            rng.seed_all(rng.derive(self.seed, self.world.rank))
        resumed = resume.resume_if_requested(saved, parts, plan, self.world.rank, inexact)
        self.global_step, self._evaluated_step = resumed.global_step, resumed.evaluated_step
        self.evaluation, self._mode = resumed.evaluation or {}, resumed.order_mode
        self._row = dict(resumed.pending_row) if resumed.pending_row is not None else None
        if resumed.order_mode == order.LEGACY and resumed.resume_batch_idx:
            self._order_epoch = resumed.start_epoch
            self._sampler_seed = resumed.sampler_seed if resumed.sampler_seed is not None else peeked
            self._order = order.sampler_order(self._sampler_seed, plan.records)
        elif resumed.sampler_seed is not None:
            self._order_epoch, self._sampler_seed = resumed.start_epoch, resumed.sampler_seed
            self._order = order.sampler_order(resumed.sampler_seed, plan.records)
        self._begin(resumed, columns)
        return resumed

    def _begin(self, resumed: resume.Resumed, columns: Sequence[str]) -> None:
        """Open the files of this attempt and say where it starts."""
        size = payload.size_of(self._payload()) + payload.optimizer_bytes_to_come(self.parts.optimizer)
        there = sum(path.exists() for path in (self.paths.last, self.paths.previous))
        self.world.decide(lambda: require_space(self.store.folder, size, 3 - there))
        setting = self.request.operational["checkpoint_interval"]
        self.interval = Interval(setting, self.store.retention.keep_every, size / 200e6)
        if self._found is not None and self._found.path.parent == self.store.folder:
            self._saved = self._key()
        self._found = None
        self.metrics = MetricsFile(self.paths.metrics, columns) if self.world.first else None
        if self.metrics is not None:
            self.metrics.open(resumed.global_step, resumed.metrics_bytes, resumed.pending_row is not None)
        changes: dict[str, Any] = {"total_steps": self.plan.total_steps, "global_step": self.global_step}
        if resumed.inexact:
            changes["exact"] = False
            say(f"this resume is inexact: {'; '.join(resumed.inexact)}")
        self.records.status(**changes)
        if self._saved is not None or resumed.global_step:
            self.records.event(
                "resumed", global_step=resumed.global_step, start_epoch=resumed.start_epoch,
                resume_batch_idx=resumed.resume_batch_idx, train_order_mode=resumed.order_mode, inexact=list(resumed.inexact),
            )  # fmt: skip
            say(resumed.line()) if self.world.first else None
        settings = self.request.operational
        self.tracker = (
            tracking.start(settings["tracking"], self.paths, self.config) if self.world.first else tracking.OFF
        )
        self.profiler = profiling.start(settings["profiling"], self.paths, self.device) if self.world.first else None
        self.progress = Progress(self.plan.total_steps, self.global_step, quiet=not self.world.first)

    def batches(self) -> Iterator[Batch]:
        """Every effective batch from where the run stands to its end; ``commit`` each before asking for the next."""
        self._boundary(False)
        if self._evaluation_due():
            self._run_evaluation()
            self._boundary(self.plan.ends_epoch(self.global_step))
        while self.global_step < self.plan.total_steps:
            step = self.global_step
            epoch, index = self.plan.position(step)
            first, end = self.plan.group(index)
            yield Batch(epoch, index, step, self.order(epoch)[first:end], self.logs(step + 1))
            if self.global_step != step + 1:
                raise UnbrokenError(
                    f"effective batch {step} was not committed: call commit() once in each turn of the loop"
                )

    def order(self, epoch: int) -> torch.Tensor:
        """int64 [records]: the order of one epoch. In the legacy mode it advances the global generator, as it did then."""
        if epoch != self._order_epoch:
            if self._mode == order.LEGACY:
                self._sampler_seed = order.draw_sampler_seed()
                self._order = order.sampler_order(self._sampler_seed, self.plan.records)
            else:
                self._order = order.epoch_order(self.seed, epoch, self.plan.records)
            self._order_epoch = epoch
        return self._order

    def logs(self, step: int) -> bool:
        """Whether the row of this effective batch (counted from 1) is written."""
        return step % self._log_every == 0 or self.plan.ends_epoch(step) or self._evaluates_at(step)

    def _evaluates_at(self, step: int) -> bool:
        every = self._evaluate_every
        return self._evaluate is not None and (self.plan.ends_epoch(step) or (every > 0 and step % every == 0))

    def _evaluation_due(self) -> bool:
        return self._evaluates_at(self.global_step) and self._evaluated_step != self.global_step

    def commit(self, loss: torch.Tensor | float | None = None, lr: float | None = None, **values: Any) -> None:
        """One effective batch is done: row, evaluation, periodic save, stop. Raises SystemExit(42) after a signal.

        Tensors are read only for a row that is written.
        """
        self.global_step = step = self.global_step + 1
        if self.profiler is not None:
            self.profiler.step()
        if self.logs(step):
            if lr is None:
                lr = float(self.parts.optimizer.param_groups[0]["lr"])
            further = {name: _number(value) for name, value in values.items()}
            epoch = self.plan.position(step - 1)[0]
            self._row = {"step": step, "epoch": epoch, "lr": lr, "loss": _number(loss), **further}
            if self._evaluates_at(step):
                self._boundary(False)
                self._run_evaluation()
            else:
                self._write_row()
        self._boundary(self.plan.ends_epoch(step))

    def _write_row(self) -> None:
        row, self._row = self._row, None
        if row is not None:
            if self.metrics is not None:
                self.metrics.row(row)
            self.tracker.log(row)
            self.progress.show(row["step"], row["epoch"], row["loss"], force=self.plan.ends_epoch(row["step"]))

    def _run_evaluation(self) -> None:
        assert self._evaluate is not None
        values = self.during(self._evaluate)
        self.evaluation = {name: _number(value) for name, value in values.items()}
        self._evaluated_step = self.global_step
        self._row = {**(self._row or {"step": self.global_step}), **self.evaluation}
        self._write_row()

    def during(self, function: Callable[[Callable[[], None]], Any]) -> Any:
        """Call something long, an evaluation, that polls for a stop; stopped, it is redone from its start after the resume."""
        before = rng.capture()
        try:
            return function(self.check)
        except preemption.StopNow:
            rng.restore(before)
            self._shutdown()

    def check(self) -> None:
        """A poll in something long. All ranks call it equally often. Raises StopNow where a stop is asked for."""
        if self.should_stop():
            raise preemption.StopNow

    def should_stop(self) -> bool:
        """Whether any rank was asked to stop."""
        return self.world.any(self.flag.requested)[0]

    def _boundary(self, save: bool) -> None:
        """A safe point: everything counted is committed."""
        stop, save = self.world.any(self.flag.requested, save or self.interval.due(self.global_step))
        if save and not stop and self._saved != self._key():
            self.save()
            stop = self.should_stop()
        if stop:
            self._shutdown()

    def _key(self) -> tuple[int, int]:
        return self.global_step, self._evaluated_step

    def save(self) -> None:
        """Save now, durably; all ranks call it.

        Raises:
            CheckpointError: the disk does not take it; the pair before is intact.
        """
        began = time.monotonic()
        if self.metrics is not None:
            self.metrics.sync()
        content = self._payload()
        content["rng"] = self.world.gather(rng.capture())
        epoch, index = self.plan.position(self.global_step)
        metric = next(iter(self.evaluation.values()), None) if self._evaluated_step == self.global_step else None
        note = {
            "global_step": self.global_step, "epoch": epoch, "batch": index, "config_hash": self.identity.config_hash,
            "train_order_mode": self._mode, "world_size": self.world.size, "metric": metric,
        }  # fmt: skip
        sidecar = self.world.decide(lambda: self.store.save(content, note))
        self._saved = self._key()
        cost = time.monotonic() - began
        self.interval.saved(cost)
        self.records.event(
            "checkpoint_saved", global_step=self.global_step, bytes=sidecar["bytes"], seconds=round(cost, 4)
        )
        self.records.status(global_step=self.global_step, total_steps=self.plan.total_steps)

    def _environment(self) -> dict[str, Any]:
        return {
            "torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "device": self.device.type,
            "world_size": self.world.size,
        }

    def _payload(self) -> dict[str, Any]:
        """Everything but the random states, in types that load with weights_only."""
        states = {name: payload.plain(part.state_dict(), f"states.{name}") for name, part in self.parts.states()}
        sampler = {"mode": self._mode, "epoch": self._order_epoch, "sampler_seed": self._sampler_seed}
        return {
            "format": payload.FORMAT,
            "config_snapshot": payload.plain(self.identity.config, "config"),
            "config_hash": self.identity.config_hash,
            "seed": self.seed,
            "position": {"global_step": self.global_step},
            "order": sampler,
            "states": states,
            "environment": self._environment(),
            "data_fingerprint": self.fingerprint,
            "evaluation": {"step": self._evaluated_step, "values": payload.plain(dict(self.evaluation), "evaluation")},
            "pending_row": payload.plain(self._row, "pending_row"),
            "metrics_bytes": self.metrics.size if self.metrics is not None else None,
        }

    def _shutdown(self) -> None:
        """Save what is not saved yet, record the one graceful_shutdown, end with 42."""
        if self._saved != self._key():
            self.save()
        self.progress.done()
        self._leave(saved=True)

    def _leave(self, saved: bool) -> None:
        name = self.flag.signal_name or "a signal to another rank"
        self.records.stopped(name, self.global_step, saved)
        if self.world.first:
            say(
                f"stopped by {name} at step {self.global_step}{', saved' if saved else ', nothing to save yet'}: start me again"
            )
        self.tracker.finish(preempted=True)
        raise SystemExit(exit_codes.RESUMABLE)

    def complete(self, metrics: Mapping[str, Any] | None = None, **further: Any) -> None:
        """Write result.json: the run is finished. ``metrics`` defaults to the last evaluation."""
        values = self.evaluation if metrics is None else metrics
        if self.parts.ema is not None:
            further["ema_sha256"] = result.weights_sha256(self.parts.ema.state_dict())
        weights = result.weights_sha256(self.parts.model.state_dict())
        content = result.document(
            self.identity.config_hash, self.seed, self.identity.trainer, self.global_step, values, weights, **further
        )
        self.progress.done()
        self.world.decide(lambda: write_json(self.paths.result, content))
        self.records.completed(self.global_step)
        self.tracker.finish(preempted=False)
        say(f"finished: {self.paths.result}") if self.world.first else None

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, preemption.StopNow):  # before attach: there is nothing to save
                self._leave(saved=False)
            if error is not None and not isinstance(error, SystemExit):
                self.records.failed(error)
        finally:
            if self.profiler is not None:
                self.profiler.stop()
            if self.metrics is not None:
                self.metrics.close()
            self.world.leave()


def _wants_cuda(config: Mapping[str, Any]) -> bool:
    return torch.cuda.is_available() and config.get("device", "auto") != "cpu"


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else float(value) if isinstance(value, float) else value

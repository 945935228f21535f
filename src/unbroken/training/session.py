"""One run from its first look into the run directory to its end: resume, order, commit, save, stop, result."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import torch

from unbroken import exit_codes
from unbroken.run_dir.files import write_json
from unbroken.training import opening, order, preemption, result, resume, rng, slips
from unbroken.training.evaluation import Evaluation, number
from unbroken.training.outputs import Outputs
from unbroken.training.parts import Parts
from unbroken.training.position import Plan
from unbroken.training.progress import say
from unbroken.training.records import Records
from unbroken.training.saving import Saver
from unbroken.training.state import Batch, Evaluate, State, environment


class Session:
    """An open run directory: ``with Session.open() as run``, then ``attach``, ``batches``, ``commit``, ``complete``."""

    def __init__(self, opened: opening.Opened) -> None:
        request = opened.request
        self.request, self.identity, self.store, self.world = request, opened.identity, opened.store, opened.world
        self.paths, self.config, self.seed = request.paths, request.config, request.seed
        self.flag = preemption.FLAG
        self.records: Records = opened.records
        self.device = opening.device(request.config)
        self.finished = opened.finished
        """result.json is there already: nothing is left to train."""
        self.state: State
        """From ``attach`` on."""
        self._found = opened.discovery.found
        self._outputs = Outputs()
        self._finish_saves: Callable[[], None] = lambda: None
        self._left = False

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
        **operational: Any,
    ) -> "Session":
        """Open a run directory; what is not given comes from UNBROKEN_RUN_DIR, UNBROKEN_CONFIG, UNBROKEN_SEED.

        Args:
            operational: operational keys that win over the config's, e.g. ``auto_resume``, ``checkpoint_interval``.

        Raises:
            IdentityMismatch: the directory belongs to another run; nothing was written.
            CheckpointError: there are checkpoints, and none can be read.
            RunDirectoryError, CollectionError: no directory, or a config that cannot be read.
        """
        preemption.install()
        request = opening.Request.of(run_dir, config, seed, ckpt_dir, **operational)
        if not request.flag("enable_graceful_shutdown"):
            preemption.uninstall()
        session = cls(opening.look(request, trainer, Path(resume_from) if resume_from else None))
        rng.pin_threads(int(request.config.get("threads", 1)))
        rng.make_deterministic(session.device.type)
        rng.seed_all(request.seed)
        return session

    @property
    def global_step(self) -> int:
        """Effective batches committed."""
        return self.state.global_step

    @property
    def evaluation(self) -> Mapping[str, Any]:
        """Values of the newest finished evaluation."""
        return self.state.evaluation

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
        slips.attached(hasattr(self, "state"), wanted=False)
        self._columns = frozenset(columns)
        here = environment(self.device, self.world.size)
        self.state = State(
            self.identity, parts, plan, order.Orders(self.seed, plan.records), fingerprint, here,
            evaluate_every if evaluate is not None else None, max(self.request.count("log_every"), 1),
        )  # fmt: skip
        self._evaluation = Evaluation(evaluate, self.state, self._outputs, self.during)
        saved = self._found.payload if self._found is not None else None
        allowed = self.request.flag("allow_world_size_change")
        inexact = resume.check_environment(self.paths, saved, here, fingerprint, allowed)
        peeked = order.peek_sampler_seed()
        self.world.same_start([*parts.model.parameters(), *parts.model.buffers()])
        if self.world.rank:
            rng.seed_all(rng.derive(self.seed, self.world.rank))
        resumed = resume.resume_if_requested(saved, parts, plan, self.world.rank, inexact)
        self.state.take(resumed, peeked)
        self._begin(resumed, columns)
        return resumed

    def _begin(self, resumed: resume.Resumed, columns: Sequence[str]) -> None:
        """Check the room on the disk, open the files of this attempt, say where it starts."""
        options, interval = self.request.operational, self.request.operational["checkpoint_interval"]
        self._saver = Saver(self.store, self.state, self.world, self.records, self._outputs, interval)
        self._finish_saves = self._saver.close
        if self._found is not None and self._found.path.parent == self.store.folder:
            self._saver.stands()
        changes: dict[str, Any] = {"total_steps": self.state.plan.total_steps, "global_step": self.global_step}
        self.records.status(**changes, **({"exact": False} if resumed.inexact else {}))
        if self.world.first:
            total = self.state.plan.total_steps
            self._outputs.open(self.paths, self.records, columns, resumed, total, options, self.config, self.device)
            if self._found is not None:
                self.records.event("resumed", **resumed.position(), inexact=list(resumed.inexact))
                say(resumed.line())
                say(f"this resume is inexact: {'; '.join(resumed.inexact)}") if resumed.inexact else None
        self._found = None

    def batches(self) -> Iterator[Batch]:
        """Every effective batch from where the run stands to its end; ``commit`` each before asking for the next.

        Raises:
            UnbrokenError: ``attach`` or ``commit`` was forgotten.
        """
        slips.attached(hasattr(self, "state"), wanted=True)
        state, plan = self.state, self.state.plan
        self._boundary(False)
        if state.evaluation_due:
            self._evaluation.run()
            self._boundary(plan.ends_epoch(state.global_step))
        while (step := state.global_step) < plan.total_steps:
            epoch, index = plan.position(step)
            first, end = plan.group(index)
            yield Batch(epoch, index, step, state.orders.of(epoch)[first:end], state.after(step + 1)[0])
            if self._left or state.global_step != step + 1:
                self._stay_left()
                slips.committed(step, state.global_step)

    def micro_batches(self, batch: Batch) -> list[torch.Tensor]:
        """int64 [<= batch_size] each: the records of this process in an effective batch; empty ones are left out."""
        plan = self.state.plan
        if plan.effective_batch == plan.batch_size:
            return [batch.records]
        first, bounds = plan.group(batch.index)[0], plan.micro_batches(batch.index, self.world.rank)
        return [batch.records[a - first : b - first] for a, b in bounds if b > a]

    def order(self, epoch: int) -> torch.Tensor:
        """int64 [records]: the order of the epoch that is being trained."""
        return self.state.orders.of(epoch)

    def commit(self, loss: torch.Tensor | float | None = None, lr: float | None = None, **values: Any) -> None:
        """One effective batch is done: row, evaluation, periodic save, stop. Tensors are read only for a written row.

        Args:
            values: columns of metrics.csv, named in ``attach(columns=...)``.

        Raises:
            SystemExit: 42, saved, after a signal.
            UnbrokenError: a value is no column.
            CheckpointError: a save failed; the pair before is intact.
        """
        if self._left or values:
            self._stay_left()
            slips.columns(values, self._columns)
        state = self.state
        state.global_step = step = state.global_step + 1
        self._outputs.step()
        logs, evaluates, ends_epoch = state.after(step)
        if logs:
            rate = float(state.parts.optimizer.param_groups[0]["lr"]) if lr is None else lr
            further = {name: number(value) for name, value in values.items()}
            epoch = state.plan.position(step - 1)[0]
            state.row = {"step": step, "epoch": epoch, "lr": rate, "loss": number(loss), **further}
            if evaluates:
                self._boundary(False)
                self._evaluation.run()
            else:
                self._evaluation.write_row()
        self._boundary(ends_epoch)

    def during(self, function: Callable[[Callable[[], None]], Any]) -> Any:
        """Call something long that polls ``check`` for a stop; stopped, it is redone from its start after a resume."""
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
        """A safe point: all that is counted is committed. Saves where it is due, stops where it is asked for."""
        due, broken = self._saver.poll()
        stop, save, broken = self.world.any(self.flag.requested, save or due, broken)
        if broken and not stop:
            self._saver.flush()
        if save and not stop and not self._saver.saved:
            self._saver.save_periodic()
            stop = self.should_stop()
        if stop:
            self._shutdown()

    def save(self) -> None:
        """Save now, durably; all ranks call it.

        Raises:
            CheckpointError: the disk does not take it; the pair before is intact.
        """
        self._saver.save()

    def flush(self) -> None:
        """Wait for the save that is written behind the training; all ranks call it. Raises CheckpointError."""
        self._saver.flush()

    def _shutdown(self) -> NoReturn:
        """Save what is not saved yet, record the one graceful_shutdown, end with 42."""
        if not self._saver.saved:
            self.save()
        self._saver.flush()
        self._leave(saved=True)

    def _stay_left(self) -> None:
        """A script that has swallowed the exit after a stop must not go on: another attempt may begin at any time."""
        if self._left:
            raise SystemExit(exit_codes.RESUMABLE)

    def _leave(self, saved: bool) -> NoReturn:
        self._left = True
        name = self.flag.signal_name or "a signal to another rank"
        before = self._found.payload["position"]["global_step"] if self._found is not None else 0
        step = self.state.global_step if saved else int(before)
        self.records.stopped(name, step, saved)
        if self.world.first:
            what = f"saved at step {step}" if saved else "with nothing new to save"
            say(f"stopped by {name}, {what}: start me again")
        self._outputs.finish(preempted=True)
        raise SystemExit(exit_codes.RESUMABLE)

    def complete(self, metrics: Mapping[str, Any] | None = None, **further: Any) -> None:
        """Write result.json: the run is finished. ``metrics``: default the evaluation, done anew if it is old."""
        self._stay_left()
        if metrics is None:
            self._evaluation.refresh()
        values = self.evaluation if metrics is None else metrics
        content = result.document(self.identity, self.global_step, values, self.state.parts, **further)
        self._saver.flush()
        self.world.decide(lambda: write_json(self.paths.result, content))
        self.records.completed(self.global_step)
        self._outputs.finish(preempted=False)
        if self.world.first:
            say(f"finished: {self.paths.result}")

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
            self._finish_saves()
            self._outputs.close()
            self.records.release()
            self.world.leave()

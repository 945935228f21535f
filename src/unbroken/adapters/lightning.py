"""PyTorch Lightning: a callback that keeps the trainer contract. Extra: ``unbroken[lightning]``.

::

    run = UnbrokenCallback()                                   # first: it seeds, and knows the setting
    trainer = Trainer(callbacks=[run], max_epochs=run.config["epochs"], plugins=[...])
    trainer.fit(Net(run.config), run.loader(dataset, batch_size=32), ckpt_path=run.ckpt_path)

A save lies where Lightning has nothing half done: after the hooks of a step; where a validation follows, after it; at
the end of an epoch, when the next one begins. Lightning's own hook for that moment is the reason why each differs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.environments import SLURMEnvironment

from unbroken.adapters.attempt import Attempt, require_one_process
from unbroken.adapters.loader import EpochLoader
from unbroken.errors import UnbrokenError
from unbroken.training import preemption
from unbroken.training.context import plain_errors
from unbroken.training.progress import say


class UnbrokenCallback(Checkpoint):  # type: ignore[misc]  # a Checkpoint is called after all other callbacks
    """Resume, saves, stop, metrics.csv and result.json of one run; make it before the model.

    Args:
        columns: names that the module logs in its validation, for metrics.csv and result.json.
        operational: operational keys that win over the config's, e.g. ``checkpoint_interval=100``.
    """

    def __init__(self, columns: Sequence[str] = (), **operational: Any) -> None:
        with plain_errors():
            self._attempt = Attempt(columns, **operational)
        self.run_dir, self.config, self.seed = self._attempt.paths.root, self._attempt.config, self._attempt.seed
        self.ckpt_path = str(self._attempt.found.path) if self._attempt.found else None
        """For ``trainer.fit(ckpt_path=...)``; None where the run starts."""
        self._step = 0
        self._logger_step: int | None = None
        """What Lightning is to count on from, until the first batch after a resume."""
        self._lr: float | None = None
        self._loss: torch.Tensor | None = None

    @property
    def finished(self) -> bool:
        """result.json is there: ``fit`` would end the program with 0."""
        return self._attempt.finished

    def loader(self, dataset: Any, batch_size: int, **options: Any) -> EpochLoader:
        """A DataLoader in the order of seed and epoch that goes on in the middle of an epoch."""
        return EpochLoader(dataset, self.seed, batch_size, **options)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        if self.finished:
            say(f"{self._attempt.paths.result} is there: nothing to train")
            raise SystemExit(0)
        with plain_errors():
            require_one_process(trainer.world_size)
            _refuse_requeue(trainer)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if "unbroken" in checkpoint:
            trainer.should_stop = checkpoint["unbroken"]["should_stop"]
            self._logger_step = checkpoint["unbroken"]["logger_step"]

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        with plain_errors():
            _require_checkpoint(trainer.ckpt_path, self.ckpt_path)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._attempt.graceful:  # Lightning has put its own handler for SIGTERM above ours, which ends anywhere
            preemption.install()
            trainer._signal_connector.received_sigterm = False
        with plain_errors():
            _require_resumable(trainer)
            total = trainer.estimated_stepping_batches
            self._attempt.begin(int(total) if 0 < total < float("inf") else 0)
        self._step = trainer.global_step
        if self._attempt.stop:
            self._attempt.leave(self._step)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self._logger_step is not None:
            trainer.fit_loop.epoch_loop._batches_that_stepped, self._logger_step = self._logger_step, None
            trainer.fit_loop._restarting = False  # else no ReduceLROnPlateau is stepped at the end of this epoch

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        self._lr = optimizer.param_groups[0]["lr"]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        part = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if isinstance(part, torch.Tensor):  # Lightning has divided it by the number of micro-batches
            self._loss = part.detach() if self._loss is None else self._loss + part.detach()
        if trainer.global_step == self._step:  # in the middle of an accumulation group
            return
        self._step, loss, self._loss = trainer.global_step, self._loss, None
        last = trainer.is_last_batch or self._step == trainer.max_steps
        if last or self._validates(trainer) or self._attempt.logs(self._step):
            self._attempt.note(self._step, epoch=trainer.current_epoch, lr=self._lr, loss=loss)
        if not last and not self._validates(trainer):
            self._boundary(trainer)

    @staticmethod
    def _validates(trainer: Trainer) -> bool:
        return bool(trainer.fit_loop.epoch_loop._should_check_val_fx(trainer.fit_loop._data_fetcher))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        seen = {name: trainer.callback_metrics[name] for name in self._columns if name in trainer.callback_metrics}
        self._attempt.note(self._step, **seen)
        if not trainer.is_last_batch and self._step != trainer.max_steps:
            self._boundary(trainer)

    @property
    def _columns(self) -> tuple[str, ...]:
        return self._attempt.columns

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epochs = trainer.fit_loop.epoch_progress.current
        epochs.ready = epochs.processed + 1  # one too few after a resume to here: the next one would not be noticed
        self._boundary(trainer, new_epoch=True)

    def _boundary(self, trainer: Trainer, new_epoch: bool = False) -> None:
        """Nothing is half done. Save where it is due; end where a signal came."""
        if trainer.should_stop and trainer.fit_loop._can_stop_early:
            return  # Lightning ends by itself after this
        if self._attempt.due(self._step):
            self._save(trainer, new_epoch)
        if self._attempt.stop:
            self._attempt.leave(self._step)

    def _save(self, trainer: Trainer, new_epoch: bool) -> None:
        loop = trainer.fit_loop.epoch_loop
        if new_epoch:  # as Lightning does a moment later; a resume would go on counting in the epoch before
            for progress in (loop.batch_progress, loop.scheduler_progress, loop.automatic_optimization.optim_progress):
                progress.reset_on_run()
            loop.val_loop.batch_progress.total.reset()
        content = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        counted = loop._batches_that_stepped + (0 if new_epoch else 1)  # in a step's own hooks it is one behind
        ours = {"should_stop": trainer.should_stop, "logger_step": counted}
        with plain_errors():
            self._attempt.save(self._step, trainer.current_epoch, {**content, "unbroken": ours})

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._attempt.flush_row()
        self._save(trainer, new_epoch=True)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._attempt.complete(trainer.global_step, pl_module)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._attempt.failed(exception)


def _refuse_requeue(trainer: Trainer) -> None:
    environment = trainer._accelerator_connector.cluster_environment
    if isinstance(environment, SLURMEnvironment) and environment.auto_requeue:
        raise UnbrokenError(
            "Lightning's own auto-requeue is on (SLURMEnvironment(auto_requeue=True), its default inside a Slurm job), "
            "and two parties would restart this run: give Trainer(plugins=[SLURMEnvironment(auto_requeue=False)])"
        )


def _require_checkpoint(used: Any, wanted: str | None) -> None:
    if (str(used) if used else None) != wanted:
        raise UnbrokenError(
            f"trainer.fit was given ckpt_path={str(used) if used else None!r} and this run stands at {wanted!r}: "
            "give trainer.fit(..., ckpt_path=run.ckpt_path)"
        )


def _require_resumable(trainer: Trainer) -> None:
    for loader in trainer.fit_loop._combined_loader.flattened:
        if not hasattr(loader, "state_dict") or not hasattr(loader, "load_state_dict"):
            raise UnbrokenError(
                f"the training loader is a {type(loader).__name__} without state_dict and load_state_dict, so a resume "
                "would train the first batches of its epoch again: take run.loader(dataset, batch_size=...)"
            )
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau and config.interval == "step":
            raise UnbrokenError(
                "ReduceLROnPlateau with interval 'step' is stepped after Lightning's last hook of a step, so a save "
                "misses it: give its lr_scheduler config interval='epoch'"
            )

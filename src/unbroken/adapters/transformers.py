"""Hugging Face's Trainer: a callback that keeps the trainer contract. Extra: ``unbroken[transformers]``.

::

    run = UnbrokenCallback()                                   # first: it seeds, and knows the setting
    args = TrainingArguments(output_dir=run.output_dir, seed=run.seed, save_strategy="no", ...)
    run.train(Trainer(model=build(run.config), args=args, train_dataset=dataset))

A save lies where Trainer has nothing half done: at the end of a step, and at the end of an epoch after its evaluation,
never between the two. Trainer's checkpoint is a folder; it counts once last.pt names it with the hashes of its files.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import TrainOutput

from unbroken.adapters.attempt import Attempt, require_one_process
from unbroken.adapters.folders import FolderStore
from unbroken.errors import UnbrokenError
from unbroken.training.context import plain_errors
from unbroken.training.progress import say

_SUMS = ("_total_loss_scalar", "_globalstep_last_logged", "_initial_global_step")
"""What Trainer adds up for the losses it logs and does not save; ``_tr_loss`` besides, which is a tensor."""


class UnbrokenCallback(TrainerCallback):  # type: ignore[misc]
    """Resume, saves, stop, metrics.csv and result.json of one run; make it before the model.

    Args:
        columns: further names that Trainer logs, e.g. ``eval_loss``, for metrics.csv and result.json.
        operational: operational keys that win over the config's, e.g. ``checkpoint_interval=100``.
    """

    def __init__(self, columns: Sequence[str] = (), **operational: Any) -> None:
        with plain_errors():
            self._attempt = Attempt(columns, FolderStore, **operational)
        self.run_dir, self.config, self.seed = self._attempt.paths.root, self._attempt.config, self._attempt.seed
        self.output_dir = str(self._attempt.paths.checkpoints)
        """For TrainingArguments."""
        self._trainer: Any = None
        self._epoch_ended = False

    @property
    def finished(self) -> bool:
        """result.json is there: ``train`` would end the program with 0."""
        return self._attempt.finished

    def train(self, trainer: Trainer) -> TrainOutput:
        """``trainer.train()`` from where the run stands to its end, and result.json.

        Raises:
            SystemExit: 42, saved after a signal; 0, the run was finished before; 1, arguments that cannot be resumed.
        """
        attempt = self._attempt
        if self.finished:
            say(f"{attempt.paths.result} is there: nothing to train")
            raise SystemExit(0)
        self._trainer = trainer
        if self not in trainer.callback_handler.callbacks:
            trainer.add_callback(self)
        try:
            with plain_errors():
                self._refuse(trainer.args)
                output = self._train(trainer)
                attempt.complete(output.global_step, trainer.model)
        except BaseException as error:
            attempt.failed(error)
            raise
        return output

    def _train(self, trainer: Trainer) -> TrainOutput:
        attempt = self._attempt
        cast(FolderStore, attempt.store).prune = (
            trainer.args.save_strategy == "no" and trainer.args.save_total_limit is None
        )
        there = attempt.found.payload if attempt.found else None
        folder = str(attempt.store.folder / there["folder"]) if there else None
        if there and there["finished"] is not None:  # a kill before the result: Trainer would train on
            trainer._load_from_checkpoint(folder)
            return TrainOutput(attempt.saved_step, there["finished"], {})
        output = trainer.train(folder)
        attempt.flush_row()
        if output.global_step != attempt.saved_step:
            trainer._save_checkpoint(trainer.model, None)
            self._save(trainer.state, finished=output.training_loss)
        return output

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        attempt = self._attempt
        with plain_errors():
            if self._trainer is None:
                raise UnbrokenError("trainer.train() goes on from nothing: call run.train(trainer) in its place")
        attempt.begin(state.max_steps)
        if attempt.found is not None:
            sums = attempt.found.payload["sums"]
            self._trainer._tr_loss = torch.tensor(sums["_tr_loss"], device=args.device)
            for name in _SUMS:
                setattr(self._trainer, name, sums[name])
        if attempt.stop:
            attempt.leave(state.global_step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **parts: Any
    ) -> None:
        row = {name: logs[name] for name in self._attempt.columns if name in logs}
        if "loss" in logs:
            row |= {"lr": logs.get("learning_rate"), "loss": logs["loss"]}
        if row:  # Trainer counts epochs as a fraction, 1.0 at the end of the first one
            self._attempt.note(state.global_step, epoch=math.ceil(state.epoch) - 1, **row)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        self._epoch_ended = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        if self._boundary(state, control) and self._attempt.due(state.global_step):
            control.should_save = True

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        self._epoch_ended = True
        self.on_step_end(args, state, control)

    def _boundary(self, state: TrainerState, control: TrainerControl) -> bool:
        """Nothing is half done: neither the end of an epoch nor that of the training is to follow this step."""
        ends_epoch = float(state.epoch).is_integer()
        return not control.should_training_stop and (self._epoch_ended or not ends_epoch)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        """Trainer has written its folder; one that it wrote at another moment is never gone on from."""
        if not self._boundary(state, control):
            return
        self._save(state)
        if self._attempt.stop:
            self._attempt.leave(state.global_step)

    def _save(self, state: TrainerState, finished: float | None = None) -> None:
        sums = {name: getattr(self._trainer, name) for name in _SUMS} | {"_tr_loss": self._trainer._tr_loss.item()}
        content = {"folder": f"checkpoint-{state.global_step}", "sums": sums, "finished": finished}
        self._attempt.save(state.global_step, state.epoch, content)

    def _refuse(self, args: TrainingArguments) -> None:
        require_one_process(max(args.world_size, args.n_gpu))
        for wrong, given, why in (
            (Path(args.output_dir).resolve() != Path(self.output_dir).resolve(), f"output_dir={args.output_dir!r}",
             "is not where this run's checkpoints are looked for: give output_dir=run.output_dir"),
            (args.seed != self.seed, f"seed={args.seed}", f"is not the run's seed {self.seed}: give seed=run.seed"),
            (args.save_total_limit == 1, "save_total_limit=1",
             "leaves nothing to fall back on while a save is written: give 2 or more, or None"),
            (args.save_only_model, "save_only_model=True", "saves no optimizer: leave it out"),
            (args.ignore_data_skip, "ignore_data_skip=True", "trains an epoch's first records again: leave it out"),
            (args.eval_on_start, "eval_on_start=True", "evaluates again after each resume: leave it out"),
            (args.auto_find_batch_size, "auto_find_batch_size=True", "changes the batches: give the size that fits"),
            (not args.accelerator_config.use_seedable_sampler, "use_seedable_sampler=False",
             "makes an order that a resume cannot make again: leave it out"),
            (args.train_sampling_strategy not in ("random", "sequential"),
             f"train_sampling_strategy={args.train_sampling_strategy!r}",
             "draws the order from a random state that is gone after a resume: give random or sequential"),
        ):  # fmt: skip
            if wrong:
                raise UnbrokenError(f"TrainingArguments({given}) {why}")

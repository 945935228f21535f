"""The entangled task: what ``training.loop`` trains."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from unbroken.data.baseline_loader import baseline_loader
from unbroken.data.sequences_entangled import VALID
from unbroken.trainers.entangled import config as keys
from unbroken.trainers.entangled.model import next_token_loss
from unbroken.trainers.entangled.pretrained import Origin, first_weights, load_first_weights, make_model
from unbroken.trainers.schedule import WarmupCosine
from unbroken.training.parts import Ema, Parts

_VALID_BATCH = 64


class _Validation(Dataset[torch.Tensor]):
    def __init__(self, task: "EntangledTask") -> None:
        self.task = task

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.task.data.tokens(torch.tensor([index]), VALID)[0]

    def __len__(self) -> int:
        return self.task.data.valid_records


class EntangledTask:
    """A causal transformer that foretells the next token.

    Args:
        config: the run config, all keys.
        world_size: processes of the run.
        poll: looked at while first weights are made; raises where a stop is asked for.

    Raises:
        CollectionError: a key that is unknown, or a value that makes no sense.
    """

    augments = False

    def __init__(self, config: Mapping[str, Any], world_size: int = 1, poll: Callable[[], None] = lambda: None) -> None:
        self.own, self.data, self.settings = keys.read(config)
        self.records = self.data.records
        self.total_steps = self.settings.plan(self.records, world_size).total_steps
        self.origin = Origin.of(config["pretrained"]) if self.own.experiment == "pretrained" else None
        self.fingerprint = self.origin.sha256.lower() if self.origin is not None else ""
        self.poll = poll
        self.columns: tuple[str, ...] = ("accuracy", "valid_loss", "valid_accuracy")
        if self.own.ema_decay:
            self.columns += ("valid_loss_ema",)

    def build(self, device: torch.device) -> Parts:
        """See ``parts.Task``. Raises CheckpointError where the pretrained weights do not fit."""
        model = make_model(self.own, self.data)
        if self.origin is not None:
            weights = first_weights(self.origin, self.own, self.data, self.poll)
            load_first_weights(model, weights, self.origin.checkpoint or f"made in {self.origin.steps} steps")
        model = model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.own.lr, weight_decay=self.own.weight_decay)
        scheduler = WarmupCosine(optimizer, self.own.warmup_steps, self.total_steps, self.own.final_lr_share)
        scaler = None
        if self.settings.precision == "fp16":
            scaler = torch.amp.GradScaler(
                device.type, init_scale=self.own.loss_scale, growth_interval=self.own.loss_scale_growth_interval
            )
        return Parts(
            model, optimizer, scheduler, scaler, Ema(model, self.own.ema_decay) if self.own.ema_decay else None
        )

    def fetch(self, records: torch.Tensor, epoch: int) -> torch.Tensor:
        """int64 [n, length + 1]: the sequences numbered ``records``."""
        return self.data.tokens(records)

    def loss(self, parts: Parts, batch: Any, step: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """Cross-entropy in nats a token; accuracy to log."""
        loss, right = next_token_loss(parts.model(batch[:, :-1]), batch)
        return loss, {"accuracy": right}

    def evaluate(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, float]:
        """Loss (nats a token) and accuracy on the validation sequences, in full precision."""
        loss, right = self._judge(parts.model, {}, check)
        values = {"valid_loss": loss, "valid_accuracy": right}
        if parts.ema is not None:
            values["valid_loss_ema"] = self._judge(parts.model, parts.ema.shadow, check)[0]
        return values

    def _judge(
        self, model: nn.Module, weights: dict[str, torch.Tensor], check: Callable[[], None]
    ) -> tuple[float, float]:
        device = next(model.parameters()).device
        loss, right, count = 0.0, 0.0, 0
        for batch in baseline_loader(_Validation(self), _VALID_BATCH):
            check()
            tokens = batch.to(device)
            logits = torch.func.functional_call(model, weights, (tokens[:, :-1],))
            batch_loss, batch_right = next_token_loss(logits, tokens)
            loss += float(batch_loss) * len(tokens)
            right += float(batch_right) * len(tokens)
            count += len(tokens)
        return loss / count, right / count

    def finish(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, Any]:
        """The size of the model, and what the best possible model reaches."""
        return {
            "parameters": sum(parameter.numel() for parameter in parts.model.parameters()),
            "loss_floor": self.data.loss_floor,
        }

"""The consensus trainer's task: data, model, loss, evaluation, predictions and skill table."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from unbroken.collection.run_dir import RunPaths
from unbroken.errors import CollectionError
from unbroken.run_dir.files import write_atomic
from unbroken.trainers.consensus.data import EPSILON_MM, Basin, Rivers
from unbroken.trainers.consensus.skill import COLUMNS, skill
from unbroken.training.order import record_generator
from unbroken.training.parts import Ema, Parts

DEFAULTS: dict[str, Any] = {
    "hidden": 32,
    "lr": 1e-3,
    "weight_decay": 0.0,
    "dropout": 0.0,
    "input_noise": 0.0,
    "schedule": "constant",
    "ema_decay": 0.0,
}
"""Config keys with their defaults. ``input_noise``: standard deviation added to the standardised log estimates."""


class ConsensusTask:
    """See ``unbroken.training.parts.Task``."""

    columns = ("test_loss", "test_nse", "test_kge")
    augments = False

    def __init__(
        self, config: Mapping[str, Any], seed: int, rivers: Rivers, paths: RunPaths, total_steps: int, writes: bool
    ):
        self.options = {**DEFAULTS, **{key: config[key] for key in DEFAULTS if config.get(key) is not None}}
        self._check_options()
        self.seed, self.rivers, self.paths, self.total_steps, self.writes = seed, rivers, paths, total_steps, writes
        self.fingerprint = rivers.fingerprint
        inputs, targets = training_tensors(rivers)
        self.mean, self.std = inputs.mean(dim=0), inputs.std(dim=0).clamp_min(1e-6)
        self.inputs, self.targets = (inputs - self.mean) / self.std, targets
        self.records = len(inputs)

    def _check_options(self) -> None:
        whole, schedule = self.options["hidden"], self.options["schedule"]
        if isinstance(whole, bool) or not isinstance(whole, int) or whole < 1:
            raise CollectionError(f"hidden is {whole!r}; give a whole number of at least 1")
        if schedule not in ("constant", "cosine"):
            raise CollectionError(f"schedule is {schedule!r}; give constant or cosine")
        for key in ("lr", "weight_decay", "dropout", "input_noise", "ema_decay"):
            value = self.options[key]
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise CollectionError(f"{key} is {value!r}; give a number that is not negative")

    def build(self, device: torch.device) -> Parts:
        """MLP: products -> hidden -> hidden -> 1, Adam, a cosine schedule and an EMA where asked for."""
        options, hidden = self.options, int(self.options["hidden"])
        layers = [nn.Linear(len(self.rivers.products), hidden), nn.ReLU(), nn.Dropout(options["dropout"])]
        layers += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)]
        model = nn.Sequential(*layers).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=options["lr"], weight_decay=options["weight_decay"])
        scheduler = None
        if options["schedule"] == "cosine":
            total = self.total_steps
            scheduler = torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda step: 0.5 + 0.5 * math.cos(math.pi * step / total)
            )
        return Parts(
            model, optimizer, scheduler, ema=Ema(model, options["ema_decay"]) if options["ema_decay"] else None
        )

    def fetch(self, records: torch.Tensor, epoch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(inputs [n, products], targets [n]); the noise of a record depends on seed, epoch and record alone."""
        inputs = self.inputs[records]
        if self.options["input_noise"]:
            draws = [
                torch.randn(inputs.shape[1], generator=record_generator(self.seed, epoch, record))
                for record in records.tolist()
            ]
            inputs = inputs + self.options["input_noise"] * torch.stack(draws)
        return inputs, self.targets[records]

    def loss(self, parts: Parts, batch: Any, step: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """Mean squared error in log discharge."""
        inputs, targets = batch
        return nn.functional.mse_loss(parts.model(inputs).squeeze(-1), targets), {}

    def predict(self, parts: Parts, basin: Basin) -> torch.Tensor:
        """float32 [days]: discharge in mm/day."""
        device = next(parts.model.parameters()).device
        inputs = ((basin.estimates + EPSILON_MM).log() - self.mean) / self.std
        logs: torch.Tensor = parts.model(inputs.to(device)).squeeze(-1)
        return (logs.exp() - EPSILON_MM).clamp_min(0).cpu()

    def evaluate(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, float]:
        """Over the test days: mean squared error in log discharge, and mean NSE and KGE of the basins."""
        losses, scores = [], []
        for basin in self.rivers.basins:
            check()
            predicted, test = self.predict(parts, basin), ~basin.train
            there = test & ~torch.isnan(basin.observed)
            error = (predicted[there] + EPSILON_MM).log() - (basin.observed[there] + EPSILON_MM).log()
            losses.append(float((error.double() ** 2).mean()))
            scores.append(skill(predicted[test], basin.observed[test]))
        return {
            "test_loss": _mean(losses),
            "test_nse": _mean([s["nse"] for s in scores]),
            "test_kge": _mean([s["kge"] for s in scores]),
        }

    def finish(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, Any]:
        """Write predictions.csv and skill.csv; the result gets the mean NSE over the basins of each estimator."""
        products = self.rivers.products
        predictions = [",".join(["id", "date", "period", "observed", "consensus", *(f"est_{p}" for p in products)])]
        table = [",".join(["id", "estimator", "period", "days", *COLUMNS])]
        means: dict[str, dict[str, list[float]]] = {}
        parts.model.eval()
        for basin in self.rivers.basins:
            check()
            with torch.no_grad():
                consensus = self.predict(parts, basin)
            series = {"consensus": consensus, **{p: basin.estimates[:, i] for i, p in enumerate(products)}}
            for name, values in series.items():
                for period, days in (("train", basin.train), ("test", ~basin.train)):
                    scores = skill(values[days], basin.observed[days])
                    count = int((~torch.isnan(basin.observed[days])).sum())
                    table.append(",".join([basin.id, name, period, str(count), *(_text(scores[c]) for c in COLUMNS)]))
                    means.setdefault(f"{name}.{period}", {}).setdefault("nse", []).append(scores["nse"])
            columns = [basin.observed.tolist(), *(values.tolist() for values in series.values())]
            for date, training, *numbers in zip(basin.dates, basin.train.tolist(), *columns, strict=True):
                predictions.append(",".join([basin.id, date, "train" if training else "test", *map(_text, numbers)]))
        if self.writes:
            write_atomic(self.paths.root / "predictions.csv", "\n".join(predictions) + "\n")
            write_atomic(self.paths.root / "skill.csv", "\n".join(table) + "\n")
        return {"nse": {name: _mean(values["nse"]) for name, values in means.items()}}


def training_tensors(rivers: Rivers) -> tuple[torch.Tensor, torch.Tensor]:
    """(log estimates [n, products], log discharge [n]) of every training day with an observation, basin by basin."""
    inputs, targets = [], []
    for basin in rivers.basins:
        days = basin.train & ~torch.isnan(basin.observed)
        inputs.append((basin.estimates[days] + EPSILON_MM).log())
        targets.append((basin.observed[days] + EPSILON_MM).log())
    if not sum(len(part) for part in targets):
        raise CollectionError("the manifest has no training day with an observation; set data.train_end later")
    return torch.cat(inputs), torch.cat(targets)


def _text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan

"""The weights that a ``pretrained`` run starts from: a file known by its SHA-256, or made here from a seed."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unbroken.data.sequences_entangled import EntangledSequences
from unbroken.data.settings import at_least, from_mapping
from unbroken.errors import CheckpointError, CollectionError
from unbroken.trainers.entangled.config import EntangledConfig
from unbroken.trainers.entangled.model import Transformer, next_token_loss

_BATCH = 32
_NAMES = ("model", "model_state_dict", "model_state", "state_dict", "weights")
_CAUSES = {
    "token": "data.task_size or data.factor_values",
    "head": "data.task_size or data.factor_values",
    "position": "data.length",
    "blocks": "layers",
}
"""The config key that most likely explains a difference in a part of the model."""


@dataclass(frozen=True)
class Origin:
    """The mapping ``pretrained:``: either the first two keys or the last two."""

    checkpoint: str = ""
    """A file: a last.pt of ours, a dict with weights under ``model`` or ``state_dict``, or the weights themselves."""
    sha256: str = ""
    """Of that file: it makes the weights part of the run's identity."""
    steps: int = -1
    """Make the weights here: this many steps on another process of the same size (data.seed + 1)."""
    seed: int = 0

    @classmethod
    def of(cls, given: Any) -> "Origin":
        """Raises CollectionError where it is neither the one nor the other."""
        if not isinstance(given, Mapping):
            raise CollectionError(
                f"pretrained is {given!r}; write a mapping, e.g. pretrained: {{checkpoint: PATH, sha256: HEX}}"
            )
        made = from_mapping(cls, given, "pretrained.")
        if made.checkpoint and ("steps" in given or "seed" in given):
            raise CollectionError("pretrained has both a checkpoint and steps or seed; keep one of the two")
        if not made.checkpoint:
            at_least("pretrained.steps", made.steps, 0)
        return made


def make_model(own: EntangledConfig, data: EntangledSequences) -> Transformer:
    """With fresh random weights from the global generator."""
    return Transformer(data.vocabulary, data.length, own.width, own.layers, own.heads, own.dropout)


def first_weights(
    origin: Origin, own: EntangledConfig, data: EntangledSequences, check: Callable[[], None]
) -> dict[str, torch.Tensor]:
    """The model's state to start from; the global generator stays as it was.

    Raises:
        CheckpointError: the file is missing, is another one, or holds no weights.
    """
    return _read(origin) if origin.checkpoint else make_weights(own, data, origin.steps, origin.seed, check)


def make_weights(
    own: EntangledConfig, data: EntangledSequences, steps: int, seed: int, check: Callable[[], None] = lambda: None
) -> dict[str, torch.Tensor]:
    """Weights from a short training on an unrelated process of the same size; the same arguments give the same bits."""
    other = replace(data, seed=data.seed + 1)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also touch the GPUs'
        model = make_model(own, other)
        optimizer = torch.optim.AdamW(model.parameters(), lr=own.lr)
        for step in range(steps):
            check()
            tokens = other.tokens(torch.arange(step * _BATCH, (step + 1) * _BATCH) % other.records)
            loss, _ = next_token_loss(model(tokens[:, :-1]), tokens)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _read(origin: Origin) -> dict[str, torch.Tensor]:
    path = Path(origin.checkpoint).expanduser()
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != origin.sha256.lower():
                raise CheckpointError(_another(path, found, origin.sha256))
            file.seek(0)
            content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(
            f"pretrained.checkpoint {path} cannot be read ({error.strerror}); mend the path, or make "
            "a demonstration one with python -m unbroken.trainers.entangled.make_checkpoint"
        ) from error
    except Exception as error:
        if isinstance(error, CheckpointError):
            raise
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(
            f"pretrained.checkpoint {path} is not a checkpoint that torch loads ({first[:160]})"
        ) from error
    return _weights(path, content)


def _another(path: Path, found: str, wanted: str) -> str:
    if not wanted:
        return (
            f"pretrained.sha256 is missing, so the weights are no part of the run's identity; if {path} is "
            f"the right file, write pretrained.sha256: {found}"
        )
    return (
        f"pretrained.checkpoint {path} has SHA-256 {found}, not {wanted}; give the file that was meant, or its new hash"
    )


def _weights(path: Path, content: Any) -> dict[str, torch.Tensor]:
    inner = content.get("states", content) if isinstance(content, Mapping) else None
    if isinstance(inner, Mapping):
        named = next((inner[name] for name in _NAMES if isinstance(inner.get(name), Mapping)), inner)
        if named and all(isinstance(value, torch.Tensor) for value in named.values()):
            return dict(named)
    raise CheckpointError(f"pretrained.checkpoint {path} holds no model weights: none of {', '.join(_NAMES)} is in it")


def load_first_weights(model: nn.Module, weights: Mapping[str, torch.Tensor], source: str) -> None:
    """Put the weights into the model.

    Raises:
        CheckpointError: they are another architecture's; every state key that differs is named, with both shapes.
    """
    wanted = model.state_dict()
    rows = []
    for name in sorted({*wanted, *weights}):
        if name not in weights:
            rows.append((name, "is missing in it"))
        elif name not in wanted:
            rows.append((name, "is in it alone"))
        elif weights[name].shape != wanted[name].shape:
            rows.append((name, f"is {list(weights[name].shape)} there and {list(wanted[name].shape)} here"))
    if rows:
        heads = dict.fromkeys(_CAUSES.get(name.split(".")[0], "width") for name, _ in rows)
        if any("there" in text and name.split(".")[0] == "blocks" for name, text in rows):
            heads = {"width": None}
        listed = ", ".join(f"{name} {text}" for name, text in rows)
        raise CheckpointError(
            f"pretrained weights of another architecture ({source}): {listed}; make the config agree with them "
            f"({', '.join(heads)}), or give other weights"
        )
    model.load_state_dict(dict(weights))

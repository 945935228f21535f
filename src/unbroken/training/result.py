"""result.json: a function of the run config alone; no time, host or attempt in it."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unbroken.training.guard import Identity
from unbroken.training.parts import Parts

SCHEMA_VERSION = 1


def weights_sha256(state: Mapping[str, Any]) -> str:
    """SHA-256 over name, dtype, shape and bytes of every tensor of a state_dict, by name; nested names are joined."""
    digest = hashlib.sha256()
    for name, value in sorted(_flat(state, "")):
        tensor = value.detach().cpu().contiguous()
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _flat(state: Mapping[str, Any], above: str) -> list[tuple[str, torch.Tensor]]:
    found: list[tuple[str, torch.Tensor]] = []
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            found.append((f"{above}{name}", value))
        elif isinstance(value, Mapping):
            found += _flat(value, f"{above}{name}.")
    return found


def clean(value: Any) -> Any:
    """As JSON can hold it: NumPy and torch numbers as Python's, NaN and infinity as null, mappings sorted by key."""
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): clean(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def document(
    identity: Identity, steps: int, metrics: Mapping[str, Any], parts: Parts, **further: Any
) -> dict[str, Any]:
    """The content of result.json."""
    ema = {} if parts.ema is None else {"ema_sha256": weights_sha256(parts.ema.state_dict())}
    return {
        "schema_version": SCHEMA_VERSION,
        "config_hash": identity.config_hash,
        "seed": identity.seed,
        "trainer": identity.trainer,
        "steps": steps,
        "metrics": clean(metrics),
        "weights_sha256": weights_sha256(parts.model.state_dict()),
        **ema,
        **clean(further),
    }

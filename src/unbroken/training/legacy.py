"""Checkpoints of the trainers before Unbroken: their names, brought to ours.

Such a file holds ``config_snapshot``, states and a step, but no train order: its epoch was shuffled by DataLoader's
RandomSampler from the global generator, which ``order.peek_sampler_seed`` reconstructs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unbroken.errors import CheckpointError
from unbroken.training.order import LEGACY

_STATES = {
    "model": ("model", "model_state_dict", "model_state", "state_dict"),
    "optimizer": ("optimizer", "opt", "optimizer_state_dict", "optimizer_state"),
    "scheduler": ("scheduler", "scheduler_state_dict", "scheduler_state", "lr_scheduler"),
    "scaler": ("scaler", "scaler_state_dict", "grad_scaler"),
    "ema": ("ema", "ema_state_dict", "ema_state"),
}
_RNG = {
    "torch": ("torch", "torch_rng_state", "cpu"),
    "cuda": ("cuda", "cuda_rng_state", "cuda_rng_state_all"),
    "numpy": ("numpy", "numpy_rng_state"),
    "python": ("python", "python_rng_state"),
}


def is_legacy(payload: Mapping[str, Any]) -> bool:
    """Whether a payload was written before Unbroken."""
    return "format" not in payload


def translate(payload: Mapping[str, Any]) -> dict[str, Any]:
    """An old payload in the shape of ours; what it does not hold is absent.

    Raises:
        CheckpointError: it has no model, no optimizer or no step.
    """
    states = {name: value for name, names in _STATES.items() if (value := _first(payload, names)) is not None}
    step = _first(payload, ("global_step", "step", "completed_steps"))
    missing = [name for name in ("model", "optimizer") if name not in states] + (
        ["global_step"] if step is None else []
    )
    if missing:
        raise CheckpointError(
            f"the old checkpoint lacks {', '.join(missing)} and cannot be continued; "
            f"it holds {', '.join(sorted(map(str, payload)))}"
        )
    nested = _first(payload, ("rng", "rng_state", "rng_states"))
    source = nested if isinstance(nested, Mapping) else payload
    return {
        "config_snapshot": payload["config_snapshot"],
        "seed": payload.get("seed"),
        "position": {"global_step": int(step)},
        "order": {"mode": payload.get("train_order_mode", LEGACY), "epoch": 0, "sampler_seed": None},
        "states": states,
        "rng": [{name: value for name in _RNG if (value := _rng(name, source)) is not None}],
        "environment": {},
        "legacy": True,
    }


def _first(mapping: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((mapping[name] for name in names if mapping.get(name) is not None), None)


def _rng(name: str, source: Mapping[str, Any]) -> Any:
    value = _first(source, _RNG[name])
    if name == "cuda" and isinstance(value, torch.Tensor):
        return [value]
    if name == "python" and isinstance(value, tuple | list):
        return list(value)
    if name == "numpy" and isinstance(value, tuple | list):  # np.random.get_state()
        _, key, position, has_gauss, gauss = value
        raw = np.asarray(key).astype("<u4").tobytes()
        numbers = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        return {"key": numbers, "position": int(position), "has_gauss": int(has_gauss), "gauss": float(gauss)}
    return value

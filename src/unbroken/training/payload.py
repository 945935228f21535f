"""What a checkpoint holds, brought into types that ``torch.load(weights_only=True)`` reads, and its size."""

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unbroken.errors import CheckpointError

FORMAT = 1
"""Of the payload; a reader refuses a higher one."""

_AS_IT_IS = (type(None), bool, int, float, complex, str, bytes, torch.Tensor, torch.nn.Parameter, torch.Size)
_ALSO = (torch.dtype, torch.device)


def plain(value: Any, name: str = "checkpoint") -> Any:
    """``value`` with NumPy scalars and arrays as Python numbers and tensors.

    Raises:
        CheckpointError: something in it could not be loaded again; the message has its place, e.g. ``states.extras.x``.
    """
    kind = type(value)
    if kind in _AS_IT_IS or isinstance(value, _ALSO):
        return value
    if kind in (dict, OrderedDict, Counter) or isinstance(value, Mapping):
        items = {key: plain(item, f"{name}.{key}") for key, item in value.items()}
        if kind not in (OrderedDict, Counter):
            return items
        copy: Any = kind(items)
        if hasattr(value, "_metadata"):  # the versions of a model's modules
            copy._metadata = value._metadata
        return copy
    if kind in (list, tuple, set):
        return kind(plain(item, f"{name}[{index}]") for index, item in enumerate(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return base(value)
    raise CheckpointError(
        f"{name} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold: "
        "its state_dict() is to consist of tensors, numbers, text, lists and mappings"
    )


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor in a payload, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for item in value.values() for tensor in tensors(item)]
    if isinstance(value, list | tuple | set):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def size_of(payload: Any) -> int:
    """Bytes that a payload will take on the disk, a little more rather than less."""
    found = tensors(payload)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in found if t.numel()}
    return sum(storages.values()) + 512 * len(found) + _numbers(payload) * 10 + 65_536


def _numbers(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_numbers(item) for item in value.values())
    if isinstance(value, list | tuple | set):
        return sum(_numbers(item) for item in value)
    return 1


def optimizer_bytes_to_come(optimizer: torch.optim.Optimizer) -> int:
    """Bytes that the optimizer's state will have after its first step, less those it has.

    Measured by one step on a tiny parameter a group; where an optimizer cannot do that, twice the parameters, which is
    what Adam takes.
    """
    if optimizer.state:
        return 0
    return sum(_state_factor(optimizer, group) * _bytes(group["params"]) for group in optimizer.param_groups)


def _state_factor(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> int:
    """How many tensors of a parameter's size the optimizer keeps for each."""
    before = torch.get_rng_state()
    try:
        tiny = torch.nn.Parameter(torch.zeros(3))
        tiny.grad = torch.zeros(3)
        kind: Any = type(optimizer)
        trial = kind([{**group, "params": [tiny]}])
        trial.step()
        return sum(tensor.shape == tiny.shape for tensor in tensors(trial.state[tiny]))
    except Exception:
        return 2
    finally:
        torch.set_rng_state(before)


def _bytes(found: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in found)

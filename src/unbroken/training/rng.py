"""The random states of one process, in types that ``torch.load(weights_only=True)`` reads."""

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_MASK = 2**64 - 1


def derive(*parts: int) -> int:
    """One 63-bit seed from several integers (splitmix64 over them): near inputs give unrelated seeds."""
    state = 0
    for part in parts:
        state = (state ^ (part & _MASK)) + 0x9E3779B97F4A7C15 & _MASK
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state >> 1


def seed_all(seed: int) -> None:
    """Seed Python, NumPy (its low 32 bits) and torch on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def capture_torch() -> torch.Tensor:
    """uint8 [5056]: the CPU generator."""
    return torch.get_rng_state()


def restore_torch(state: torch.Tensor) -> None:
    torch.set_rng_state(state.to("cpu", torch.uint8))


def capture_cuda() -> list[torch.Tensor]:
    """One uint8 state a device; empty where CUDA is not in use."""
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]


def restore_cuda(states: list[torch.Tensor]) -> None:
    for device, state in enumerate(states[: torch.cuda.device_count()] if torch.cuda.is_available() else []):
        torch.cuda.set_rng_state(state, device)


def capture_numpy() -> dict[str, Any]:
    """NumPy's global MT19937: key as uint8 [2496] (a NumPy array needs more than weights_only allows)."""
    _, key, position, has_gauss, gauss = np.random.get_state(legacy=True)
    raw = torch.frombuffer(bytearray(np.asarray(key, dtype="<u4").tobytes()), dtype=torch.uint8)
    return {"key": raw, "position": int(position), "has_gauss": int(has_gauss), "gauss": float(gauss)}


def restore_numpy(state: dict[str, Any]) -> None:
    key = np.frombuffer(bytes(state["key"].tolist()), dtype="<u4")
    np.random.set_state(("MT19937", key, state["position"], state["has_gauss"], state["gauss"]))


def capture_python() -> list[Any]:
    """``random.getstate()``: version, 625 integers, the cached Gauss value."""
    version, key, gauss = random.getstate()
    return [version, list(key), gauss]


def restore_python(state: list[Any]) -> None:
    random.setstate((state[0], tuple(state[1]), state[2]))


def capture() -> dict[str, Any]:
    """All random states of this process."""
    return {
        "torch": capture_torch(),
        "cuda": capture_cuda(),
        "numpy": capture_numpy(),
        "python": capture_python(),
    }


RESTORERS: dict[str, Callable[[Any], None]] = {
    "torch": restore_torch,
    "cuda": restore_cuda,
    "numpy": restore_numpy,
    "python": restore_python,
}
"""By the name of the state; a test takes one out to show that it matters."""


def restore(states: dict[str, Any]) -> None:
    """Put back what ``capture`` returned."""
    for name, put_back in RESTORERS.items():
        if name in states:
            put_back(states[name])


def pin_threads(recorded: int | None) -> int:
    """Use the recorded number of threads (sums differ between counts), else keep and return this process's own."""
    if recorded is not None and recorded != torch.get_num_threads():
        torch.set_num_threads(recorded)
    return torch.get_num_threads()


def make_deterministic(device_type: str) -> None:
    """On a GPU: only algorithms that give the same bits each time, where torch has one. The CPU needs nothing."""
    if device_type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False

"""What every optimizer step starts from, written by the trainer's own process: copied as ``sitecustomize.py``.

Only the drill's diagnosis starts trainers with it. It imports nothing of ours, changes nothing, draws no random number,
and stays silent whatever goes wrong in it. A line a step: [optimizer, {part: fingerprint}, gradient's norm].
"""

import contextlib
import importlib.util
import json
import os
import random
import sys
import zlib
from typing import Any

MOST_VALUES = 65_536
"""Of a tensor; a larger one is sampled with a stride."""
VARIABLE = "UNBROKEN_DRILL_TRACE"


def _number(value: Any, crc: int) -> int:
    """A checksum over tensors and numbers, nested as they are."""
    if hasattr(value, "untyped_storage"):
        flat = value.detach().reshape(-1)
        flat = flat[:: max(1, flat.numel() // MOST_VALUES)].to("cpu").contiguous()
        import torch

        return zlib.crc32(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"", crc)
    if isinstance(value, dict):
        for key in value:
            crc = _number(value[key], zlib.crc32(repr(key).encode(), crc))
        return crc
    if isinstance(value, list | tuple):
        for item in value:
            crc = _number(item, crc)
        return crc
    return zlib.crc32(repr(value).encode(), crc) if isinstance(value, int | float | str | bool) else crc


class Tracer:
    """Called before each step of each optimizer."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", buffering=1)  # noqa: SIM115
        self._optimizers: dict[int, int] = {}

    def __call__(self, optimizer: Any, *_: Any) -> None:
        with contextlib.suppress(Exception):
            self._write(optimizer)

    def _write(self, optimizer: Any) -> None:
        import torch

        groups = optimizer.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        state = [optimizer.state.get(parameter, {}) for parameter in parameters]
        settings = [{key: value for key, value in group.items() if key != "params"} for group in groups]
        parts = {
            "torch RNG": _number(torch.get_rng_state(), 0),
            "Python RNG": zlib.crc32(repr(random.getstate()).encode()),
            "optimizer": _number(state, 0),
            "scheduler": _number(settings, 0),
            "weights": _number(parameters, 0),
            "gradients": _number(gradients, 0),
        }
        if "numpy" in sys.modules:
            parts["NumPy RNG"] = zlib.crc32(repr(sys.modules["numpy"].random.get_state()[1].tobytes()).encode())
            parts["NumPy RNG"] ^= int(sys.modules["numpy"].random.get_state()[2])
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            parts["CUDA RNG"] = _number(torch.cuda.get_rng_state(), 0)
        norm = sum(float(gradient.detach().double().square().sum()) for gradient in gradients) ** 0.5
        number = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        self._file.write(json.dumps([number, parts, norm]) + "\n")


class _Finder:
    """Waits for torch.optim.optimizer to be imported, then registers the tracer there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch.optim.optimizer":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        before = loader.exec_module

        def exec_module(module: Any) -> None:
            before(module)
            with contextlib.suppress(Exception):
                module.register_optimizer_step_pre_hook(Tracer(_path()))

        loader.exec_module = exec_module
        return spec


def _path() -> str:
    return os.path.join(os.environ[VARIABLE], f"attempt_{os.environ.get('UNBROKEN_ATTEMPT', '0')}.jsonl")


def _next_sitecustomize() -> None:
    """The machine's own sitecustomize, which ours stands in front of."""
    here = os.path.dirname(os.path.abspath(__file__))
    mine = sys.modules.pop("sitecustomize", None)
    before = list(sys.path)
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    try:
        __import__("sitecustomize")
    except ImportError:
        pass
    finally:
        sys.path[:] = before
        if mine is not None:
            sys.modules.setdefault("sitecustomize", mine)


if __name__ == "sitecustomize":
    _next_sitecustomize()
    if os.environ.get(VARIABLE) and os.environ.get("RANK", "0") == "0":
        sys.meta_path.insert(0, _Finder())

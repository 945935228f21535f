"""Unbroken: interrupted PyTorch training runs that end in the same bits as unbroken ones.

For training scripts: ``with unbroken.run() as run`` and what goes into ``run.attach``. Names are looked up at first
use, so that the commands that only read run directories do not import torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbroken.training.context import run
    from unbroken.training.parts import Ema, Parts, Stateful
    from unbroken.training.position import Plan
    from unbroken.training.session import Session
    from unbroken.training.state import Batch

__version__ = "0.1.0"
__all__ = ["Batch", "Ema", "Parts", "Plan", "Session", "Stateful", "run"]

_HOME = {
    "run": "context",
    "Session": "session",
    "Batch": "state",
    "Plan": "position",
    "Parts": "parts",
    "Ema": "parts",
    "Stateful": "parts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"unbroken.training.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

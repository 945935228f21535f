"""One checkpoint file in: its hash against the sidecars, then ``torch.load(weights_only=True)``, nothing else."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unbroken.errors import CheckpointError
from unbroken.training.payload import FORMAT

Sidecars = dict[str, dict[str, Any]]


class Unreadable(Exception):
    """Why a checkpoint file is not to be used, as a half sentence."""


def read_sidecars(folder: Path) -> Sidecars:
    """Every sidecar in the folder by the hash it vouches for, those a kill left under a temporary name included."""
    found: Sidecars = {}
    for path in sorted([*folder.glob("*.json.new"), *folder.glob("*.json")]):
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(value, dict) and isinstance(value.get("sha256"), str):
            found[value["sha256"]] = value
    return found


def read_payload(path: Path, sidecars: Sidecars) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(payload, sidecar). A file without any sidecar of its own (an older program wrote it) is judged by loading it.

    Raises:
        Unreadable: empty, torn, changed, or refused by torch.
        CheckpointError: the disk fails, or a newer version wrote it: no reason to set it aside.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                raise Unreadable("has zero bytes")
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            sidecar = sidecars.get(digest)
            if sidecar is None and path.with_suffix(".json").exists():
                raise Unreadable(f"({size} bytes, SHA-256 {digest[:12]}...) is not what its sidecar describes")
            file.seek(0)
            payload = load_payload(file)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read now ({error}); it was left as it is: try again") from error
    if not isinstance(payload, dict):
        raise Unreadable(f"holds a {type(payload).__name__}, not a mapping")
    if isinstance(version := payload.get("format"), int) and version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, this version reads up to {FORMAT}: use the newer Unbroken")
    return payload, sidecar


def load_payload(file: Any) -> Any:
    """What ``torch.load(weights_only=True)`` makes of an open file, NumPy arrays allowed; raises Unreadable."""
    try:
        with torch.serialization.safe_globals(_numpy_types()):
            return torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Unreadable(f"does not load ({first[:160]})") from error


def _numpy_types() -> list[Any]:
    """What a NumPy array is pickled by; plain data. Our files hold none, those of older programs do (C22)."""
    reconstruct = np.ndarray(0).__reduce__()[0]
    return [
        reconstruct,
        np.ndarray,
        np.dtype,
        type(np.dtype("uint32")),
        type(np.dtype("int64")),
        type(np.dtype("float64")),
    ]

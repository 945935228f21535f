"""What the runs of a soak have left behind, counted: starts, replays, trainers that overlapped, bits."""

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.slurm.slow_consensus import LOG


@dataclass
class Attempt:
    """One trainer process that has committed something."""

    pid: str
    steps: list[int]
    stopped: bool = False
    """It ended with exit code 42, its state saved."""


def attempts(run: Path) -> list[Attempt]:
    """The trainers of a run in the order of their first line."""
    found: list[Attempt] = []
    for pid, what in _lines(run):
        if not any(attempt.pid == pid for attempt in found):
            found.append(Attempt(pid, []))
        attempt = next(attempt for attempt in found if attempt.pid == pid)
        if what == "stopped":
            attempt.stopped = True
        else:
            attempt.steps.append(int(what))
    return [attempt for attempt in found if attempt.steps]


def pids_of(run: Path) -> set[str]:
    """Every trainer that has committed a batch."""
    return {pid for pid, what in _lines(run) if what != "stopped"}


def warned_ends(run: Path) -> int:
    """How many trainers have ended with exit code 42, before or after their first batch."""
    return len({pid for pid, what in _lines(run) if what == "stopped"})


def _lines(run: Path) -> Iterator[tuple[str, str]]:
    path = run / LOG
    for line in path.read_text().splitlines() if path.exists() else []:
        pid, what = line.split()
        yield pid, what


def overlaps(run: Path) -> int:
    """How often a trainer wrote a line after another had begun: two were alive at once."""
    seen: list[str] = []
    count = 0
    for pid, _ in _lines(run):
        if pid in seen and seen[-1] != pid:
            count += 1
        elif pid not in seen:
            seen.append(pid)
    return count


def replays(run: Path) -> list[tuple[bool, int]]:
    """For each start but the first: whether the end before it was warned, and how many batches were done again."""
    done = attempts(run)
    return [(a.stopped, max(0, a.steps[-1] + 1 - b.steps[0])) for a, b in itertools.pairwise(done)]


def gaps(run: Path) -> int:
    """Batches that no trainer has done: a step that was skipped."""
    done = {step for attempt in attempts(run) for step in attempt.steps}
    return len(set(range(max(done) + 1)) - done) if done else 0


def fingerprint(run: Path) -> tuple[str, str]:
    """SHA-256 of result.json, and of every tensor of the last checkpoint."""
    payload = torch.load(run / "checkpoints" / "last.pt", weights_only=True)
    digest = hashlib.sha256()
    for name, tensor in sorted(_tensors(payload, "")):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.ndim else str(tensor).encode())
    return hashlib.sha256((run / "result.json").read_bytes()).hexdigest(), digest.hexdigest()


def _tensors(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(item, f"{name}/{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _tensors(item, f"{name}/{index}")


def started(run: Path) -> int:
    """How often a launcher has begun an attempt."""
    path = run / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(json.loads(line)["event"] == "run_started" for line in lines)

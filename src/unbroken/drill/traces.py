"""From two traces to the first thing that differed: what the resumed trainer held before its first steps."""

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unbroken.drill import tracing
from unbroken.drill.parts import RANDOM


@dataclass(frozen=True)
class Step:
    """What one optimizer step started from."""

    optimizer: int
    parts: dict[str, int]
    norm: float


@dataclass(frozen=True)
class Cause:
    """The first thing that differed."""

    part: str
    text: str


def prepare(scratch: Path) -> Path:
    """The folder that makes a Python trainer write its trace when it stands in PYTHONPATH."""
    folder = scratch / "hook"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(tracing.__file__, folder / "sitecustomize.py")
    return folder


def read(folder: Path, attempt: int) -> list[Step]:
    """The steps of one attempt; none where the trainer is no Python program with torch's optimizers."""
    steps = []
    try:
        lines = (folder / f"attempt_{attempt}.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            steps.append(Step(*json.loads(line)))
        except (ValueError, TypeError):  # torn by a kill
            break
    return steps


def first_cause(whole: Sequence[Step], resumed: Sequence[Step], had_checkpoint: bool) -> Cause | None:
    """Compare a resumed attempt with the undisturbed one, from where both have the same weights.

    Args:
        had_checkpoint: last.pt was there when the attempt began.
    """
    if not whole or not resumed:
        return None
    at = _aligned(whole, resumed)
    if at is None:
        text = "the first step after the resume starts from weights that the undisturbed run never had"
        return Cause("weights", text)
    if at == 0 and had_checkpoint and _anything_restored(whole, resumed):
        return Cause("weights", "the first step after the resume starts from the weights of a fresh run")
    used = [part for part in RANDOM if len({step.parts.get(part) for step in whole}) > 1]
    for offset, step in enumerate(resumed):
        if at + offset >= len(whole):
            return Cause("order", f"it trains {len(resumed) - offset} steps more than the undisturbed run")
        if found := _at_step(whole[at + offset], step, at + offset, used):
            return found
    return None


def _aligned(whole: Sequence[Step], resumed: Sequence[Step]) -> int | None:
    """The undisturbed step with the same weights; of several, the one with the most in common."""
    first = resumed[0]
    found = [index for index, step in enumerate(whole) if _same(step, first, "weights")]
    return max(found, key=lambda index: len(_equal(whole[index], first)), default=None)


def _anything_restored(whole: Sequence[Step], resumed: Sequence[Step]) -> bool:
    """The optimizer is not that of a fresh run, so that the weights alone were forgotten."""
    return not _same(whole[0], resumed[0], "optimizer")


def _same(one: Step, other: Step, part: str) -> bool:
    return one.parts.get(part) == other.parts.get(part)


def _equal(one: Step, other: Step) -> list[str]:
    return [part for part in one.parts if _same(one, other, part)]


def _at_step(one: Step, other: Step, number: int, used: Sequence[str]) -> Cause | None:
    """What differs first at one step: what it starts from, and the gradients that came out of it.

    ``used``: the generators that the training draws from. Another one may be seeded by the clock, to no effect.
    """
    where = f"before optimizer step {number + 1}"
    if not _same(one, other, "weights"):
        return Cause("weights", f"{where} the weights differ, though the step before was the same")
    gradients = _same(one, other, "gradients")
    random = [part for part in used if not _same(one, other, part)]
    if not gradients and not random:
        if _power_of_two(one.norm, other.norm):
            return Cause("scaler", f"{where} the gradients differ by a factor of {other.norm / one.norm:g}")
        same = "weights and random numbers are the same, the gradients are not"
        return Cause("order", f"{where} {same}: the batch was another one")
    if not gradients:
        return Cause(random[0], f"{where} the state of the {random[0]} differs, and with it the gradients")
    for part in ("optimizer", "scheduler"):
        if not _same(one, other, part):
            what = "the optimizer's state differs" if part == "optimizer" else "the learning rate differs"
            return Cause(part, f"{where} {what}; weights and gradients are the same")
    return None


def _power_of_two(one: float, other: float) -> bool:
    if not (one > 0 and other > 0 and math.isfinite(one) and math.isfinite(other)):
        return False
    exponent = math.log2(other / one)
    return abs(exponent) > 0.5 and abs(exponent - round(exponent)) < 1e-9

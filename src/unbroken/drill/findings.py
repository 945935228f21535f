"""From the outcomes to what a person should mend first, the cause before its effects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from unbroken.drill.case import Outcome
from unbroken.drill.compare import Difference
from unbroken.drill.parts import ADVICE, STATES, rank
from unbroken.drill.traces import Cause


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and what to do about it."""

    part: str
    """Of ``parts.ADVICE``, or ``signals``, ``save``, ``run``."""
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.text}. {self.advice[:1].upper()}{self.advice[1:]}." if self.advice else f"{self.text}."


IN_PLACE = Finding(
    "save",
    "last.pt is written in place: whoever kills the trainer during a save leaves half a checkpoint",
    "write to a file beside it, then os.replace(that, last.pt)",
)


def not_deterministic(found: Sequence[Difference]) -> Finding | None:
    """Two undisturbed runs that differ in their state: no interruption is to blame."""
    state = [item for item in found if item.part in STATES]
    if not state:
        return None
    return Finding(
        state[0].part,
        f"two undisturbed runs differ already, first in the {state[0].part} ({state[0]})",
        "seed every generator from UNBROKEN_SEED, pin torch.set_num_threads, use deterministic algorithms on a GPU",
    )


def excuse(outcomes: Iterable[Outcome], volatile: Sequence[Difference]) -> list[Outcome]:
    """The outcomes without the places that differ between two undisturbed runs too (a time, a host name)."""
    places = {item.place for item in volatile if item.part not in STATES}
    result = []
    for outcome in outcomes:
        left = [item for item in outcome.differences if item.place not in places]
        gone = [item for item in outcome.differences if item.place in places]
        if not gone:
            result.append(outcome)
            continue
        notes = [*outcome.notes, *(f"{item.file} {item.key} not compared: no two runs agree" for item in gone)]
        passed = outcome.verdict == "fail" and not left and not outcome.problem
        verdict = "pass" if passed else outcome.verdict
        result.append(replace(outcome, differences=left, notes=notes, verdict=verdict))
    return result


def findings(outcomes: Sequence[Outcome], causes: Sequence[Cause], in_place: bool) -> list[Finding]:
    """What is wrong, the first first: how it saves, how it stops, then what is not restored."""
    found = [IN_PLACE] if in_place else []
    for outcome in outcomes:
        if outcome.verdict == "fail" and outcome.problem:
            found.append(Finding("signals", f"{outcome.fault} at {outcome.at}: {outcome.problem}", outcome.advice))
    for cause in sorted(causes, key=lambda cause: rank(cause.part)):
        found.append(Finding(cause.part, f"{cause.part} differs first: {cause.text}", ADVICE[cause.part]))
    if not causes:
        rows = [item for outcome in outcomes if outcome.verdict == "fail" for item in outcome.differences]
        if rows:
            first = min(rows, key=lambda item: rank(item.part))
            found.append(Finding(first.part, f"{first.part} differs first: {first}", ADVICE[first.part]))
    return list(dict.fromkeys(found))

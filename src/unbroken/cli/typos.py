"""What is allowed and yet probably a mistake: keys that nearly have another name, programs that are not there."""

import difflib
import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from unbroken.collection.command import split_command
from unbroken.collection.identity import leaves
from unbroken.collection.model import Collection
from unbroken.collection.operational import OPERATIONAL_KEYS

LIKE = 0.84
"""difflib's ratio from which two names count as near."""
MOST_SETTINGS = 1000
_OURS = frozenset(("trainer", "command", "processes", "data"))
_SCRIPTS = (".py", ".sh", ".R", ".jl")


def warnings(collection: Collection) -> Iterator[str]:
    """One sentence for each thing that looks like a mistake."""
    counts: dict[str, int] = {}
    seen = 0
    for setting in islice(collection.settings, MOST_SETTINGS):
        seen += 1
        for key in {name for name, _ in leaves(_experiment(setting.config))}:
            counts[key] = counts.get(key, 0) + 1
    yield from _near_operational(counts)
    yield from _near_each_other(counts, seen)
    yield from _command(collection)
    yield from _pinned(collection)


def _experiment(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _OURS}


def _near_operational(counts: Mapping[str, int]) -> Iterator[str]:
    for word in sorted({part for key in counts for part in key.split(".")}):
        plain = word.lower().replace("-", "_")
        near = difflib.get_close_matches(plain, OPERATIONAL_KEYS, n=1, cutoff=LIKE)
        if near and word not in OPERATIONAL_KEYS:
            yield (
                f"`{word}` defines the experiment, but looks like the operational key `{near[0]}`: as it is written it "
                f"has no effect on how runs are run, and changing it retrains them; write it as `{near[0]}`"
            )


def _near_each_other(counts: Mapping[str, int], settings: int) -> Iterator[str]:
    """A key of some settings that is nearly a key of others: ``hiden`` in a grid over ``hidden``."""
    for key, count in sorted(counts.items()):
        others = [other for other in counts if other != key and _bare(other) != _bare(key)]
        near = difflib.get_close_matches(key, others, n=1, cutoff=LIKE)
        if near and (count < settings or counts[near[0]] < settings or _swapped(key, near[0])) and key < near[0]:
            yield f"`{key}` and `{near[0]}` are both experiment keys; is one of them a slip of the other?"


def _bare(key: str) -> str:
    """Without digits: ``lr_1`` and ``lr_2`` are meant to be two."""
    return re.sub(r"\d+", "", key)


def _swapped(one: str, other: str) -> bool:
    """One letter more, less, or exchanged."""
    return len(one) > 4 and difflib.SequenceMatcher(None, one, other).ratio() > 0.9


def _command(collection: Collection) -> Iterator[str]:
    if collection.command is None:
        return
    words = split_command(collection.command)
    if "{" not in words[0] and shutil.which(words[0]) is None:
        yield f"the program `{words[0]}` of the command is not found here"
    for word in words[1:]:
        if word.endswith(_SCRIPTS) and "{" not in word and not Path(word).exists():
            yield f"the file `{word}` of the command is not there (it is looked up from {Path.cwd().name}/)"


def _pinned(collection: Collection) -> Iterator[str]:
    if not collection.operational["job_code_snapshot_enabled"] or collection.command is None:
        return
    for word in split_command(collection.command):
        if word.startswith(str(Path.cwd()) + "/"):
            yield f"`{word}` is an absolute path: the pinned code is not used for it; write it relative to the project"

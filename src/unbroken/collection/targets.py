"""Which collections a command line names, and what to say of a target that is none."""

import re
from collections.abc import Iterable
from pathlib import Path

from unbroken.collection._sentence import nearest
from unbroken.collection.load import SLUG


def slugs_in(folder: Path) -> list[str]:
    """The collections that have a file."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def is_slug(word: str) -> bool:
    """Whether a collection could have this name."""
    return bool(SLUG.match(word))


def named_slugs(slugs: Iterable[str], arguments: Iterable[str]) -> list[str]:
    """The slugs that stand as whole words in the arguments: as targets, in paths, in the names of their rules."""
    words = {word for argument in arguments for word in re.split(r"[^A-Za-z0-9_-]+", argument)}
    return [slug for slug in slugs if slug in words or f"train_{slug}" in words]


def no_such_target(target: str, folder: Path) -> str:
    """What a person reads who has typed a name that nothing has."""
    slugs = slugs_in(folder)
    near = nearest(target, slugs)
    there = f"{near}?" if near else f"the collections in {folder}/ are: {', '.join(slugs) or 'none'}"
    return f"there is no collection {target!r}, and no rule has that name or makes that file; {there}"

"""The command of a run: an argument list with placeholders, never given to a shell."""

import re
import shlex
from collections.abc import Sequence

from unbroken.collection._sentence import show

PLACEHOLDERS = ("config", "run_dir", "seed")
"""What a collection's command may ask for; the built-in commands also use {python}."""

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SHELL = frozenset(["|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "&>"])


def split_command(command: str) -> list[str]:
    """The argument list of a collection's command, placeholders still in it.

    Raises ValueError, its text a half sentence with the fix.
    """
    if "\0" in command:
        raise ValueError("holds a NUL character; remove it")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"has {show(command)}, which cannot be split ({error}); close the quote") from None
    if not words or not words[0]:
        raise ValueError("is empty; write the program and its arguments")
    for word in words:
        if word in _SHELL:
            raise ValueError(f"has {show(word)}, but no shell runs it; put the pipeline into a script and call that")
        for piece in _PIECE.finditer(word):
            if piece[0] not in ("{{", "}}") and piece[1] not in PLACEHOLDERS:
                raise ValueError(
                    f"has {show(piece[0])}, which is no placeholder; use {{config}}, {{run_dir}} or {{seed}}, "
                    "and double a brace that is meant as such"
                )
    if re.match(r"[A-Za-z_]\w*=", words[0]):
        raise ValueError(f"starts with {show(words[0])}, but no shell runs it; start it with `env {words[0]} ...`")
    return words


def builtin_command(trainer: str) -> list[str]:
    """The argument list of a built-in trainer."""
    return ["{python}", "-m", f"unbroken.trainers.{trainer}", "--config", "{config}", "--run-dir", "{run_dir}"]


def fill_command(template: Sequence[str], values: dict[str, str]) -> list[str]:
    """The argument list with its placeholders filled; one argument stays one argument whatever the value holds."""

    def fill(piece: re.Match[str]) -> str:
        return piece[0][0] if piece[0] in ("{{", "}}") else values[piece[1]]

    return [_PIECE.sub(fill, word) for word in template]

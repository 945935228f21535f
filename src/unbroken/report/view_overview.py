"""The head of the report: what this is, how far it is, in a few numbers."""

from collections import Counter
from typing import Any

from unbroken.collection import Collection
from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import STATES, Record
from unbroken.report.text import plural


def overview(collection: Collection, records: list[Record], now: float) -> Markup:
    """Title, description and tiles."""
    states = Counter(record.state for record in records)
    finished, total = states["completed"], len(records)
    rest = ", ".join(f"{states[state]} {state}" for state in STATES[1:] if states[state])
    tiles: list[tuple[str, str, str]] = [
        (
            f"{finished} of {total}",
            "runs finished" + (f"; {rest}" if rest else ""),
            "good" if total and finished == total else "",
        ),
        (
            str(len(collection.settings)),
            f"{plural(len(collection.settings), 'setting')[2:]}, {plural(len(collection.seeds), 'seed')} each",
            "",
        ),
    ]
    if states["failed"]:
        tiles.append((str(states["failed"]), "failed, with reasons below", "bad"))
    return join(
        [
            tag("p", "Report of a collection", class_="soft small"),
            tag("h1", collection.slug),
            tag("p", collection.description) if collection.description else None,
            tile_list(tiles),
        ]
    )


def tile_list(tiles: list[tuple[str, str, str]]) -> Markup:
    """A few numbers, each with its meaning."""
    items: list[Any] = [
        tag("li", tag("b", value), tag("span", meaning), class_=kind or None) for value, meaning, kind in tiles
    ]
    return tag("ul", *items, class_="tiles")

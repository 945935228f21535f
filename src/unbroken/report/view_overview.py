"""The head of the report: what this is, how far it is, in a few numbers."""

from collections import Counter

from unbroken.collection import Collection
from unbroken.report.history import History
from unbroken.report.ledger import Ledger
from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import STATES, Record
from unbroken.report.text import duration, hours, number, plural

Tile = tuple[str, str, str]
"""A number, its meaning, and good, bad or nothing."""


def overview(collection: Collection, records: list[Record], histories: list[History], ledger: Ledger) -> Markup:
    """Title, description and tiles."""
    return join(
        [
            tag("p", "Unbroken: report of a collection", class_="soft small"),
            tag("h1", collection.slug),
            tag("p", collection.description) if collection.description else None,
            _tiles([_finished(records), _shape(collection), *_course(records, histories), *_time(ledger)]),
            _problems(records),
        ]
    )


def _tiles(tiles: list[Tile]) -> Markup:
    items = (tag("li", tag("b", value), tag("span", meaning), class_=kind or None) for value, meaning, kind in tiles)
    return tag("ul", *items, class_="tiles")


def _finished(records: list[Record]) -> Tile:
    states = Counter(record.state for record in records)
    rest = ", ".join(f"{number(states[state])} {state}" for state in STATES[1:] if states[state])
    done, total = states["completed"], len(records)
    kind = "good" if total and done == total else "bad" if states["failed"] else ""
    return f"{number(done)} of {number(total)}", "runs finished" + (f"; {rest}" if rest else ""), kind


def _shape(collection: Collection) -> Tile:
    settings, seeds = len(collection.settings), len(collection.seeds)
    return f"{number(settings)} × {number(seeds)}", f"{'setting' if settings == 1 else 'settings'} × seeds", ""


def _course(records: list[Record], histories: list[History]) -> list[Tile]:
    attempts = sum(len(history.attempts) for history in histories)
    if not attempts:
        return []
    broken = sum(len(history.interruptions) for history in histories)
    resubmits = sum(record.status.resubmit_count for record in records)
    more = f"; {plural(resubmits, 'resubmit')} after a saved stop" if resubmits else ""
    tiles: list[Tile] = [(number(attempts), f"attempts, {number(broken)} of them cut short{more}", "")]
    inexact = sum(not record.status.exact for record in records)
    if inexact:
        tiles.append((number(inexact), "runs that could not promise the same bits after a resume", "bad"))
    return tiles


def _time(ledger: Ledger) -> list[Tile]:
    share = ledger.useful_share
    if share is None:
        return []
    tiles: list[Tile] = [(f"{100 * share:.1f} %", f"of {duration(ledger.allocated)} of run time useful", "")]
    if ledger.gpu_allocated:
        tiles.append((hours(ledger.gpu_allocated), "GPU-hours", ""))
    return tiles


def _problems(records: list[Record], most: int = 10) -> Markup | None:
    """Files that could not be read."""
    found = [problem for record in records for problem in record.problems]
    if not found:
        return None
    items = [tag("li", problem) for problem in found[:most]]
    more = [tag("li", f"and {len(found) - most} more")] if len(found) > most else []
    head = tag("p", tag("strong", f"{plural(len(found), 'file')} could not be read:"))
    return tag("div", head, tag("ul", *items, *more, class_="plain"), class_="notice")

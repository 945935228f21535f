"""Tables of torch.profiler, where a run has some."""

from pathlib import Path

from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import Record
from unbroken.report.text import plural

MOST_TABLES = 20
MOST_BYTES = 20_000


def profiles_section(records: list[Record]) -> tuple[str, str, Markup] | None:
    """None where no run was profiled."""
    found = [(record, path) for record in records for path in _tables(record)]
    if not found:
        return None
    rest = len(found) - MOST_TABLES
    return (
        "profiles",
        "Profiles",
        join(
            [
                tag(
                    "p", "Tables of torch.profiler; the traces beside them open in ui.perfetto.dev or chrome://tracing."
                ),
                *(_one(record, path) for record, path in found[:MOST_TABLES]),
                tag("p", f"{plural(rest, 'more table')} not shown.", class_="soft small") if rest > 0 else None,
            ]
        ),
    )


def _tables(record: Record) -> list[Path]:
    try:
        return sorted(path for path in record.paths.profile.rglob("*.txt") if path.is_file())
    except OSError:
        return []


def _one(record: Record, path: Path) -> Markup:
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1).decode(errors="replace")
    except OSError as error:
        content = f"cannot be read: {error.strerror}"
    cut = "\n(the rest is in the file)" if len(content) > MOST_BYTES else ""
    title = f"{record.name}: {path.name}"
    return tag(
        "details",
        tag("summary", title),
        tag("pre", content[:MOST_BYTES] + cut, tabindex="0"),
        tag("p", str(path), class_="soft small"),
    )

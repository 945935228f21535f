"""report.html: one file that needs nothing else, readable without scripts, on a phone and on paper."""

import time
from collections.abc import Iterable
from pathlib import Path

from unbroken.collection import Collection
from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import Record, read_records
from unbroken.report.text import clock
from unbroken.report.view_failures import failures_section
from unbroken.report.view_overview import overview
from unbroken.report.view_results import results_section
from unbroken.run.files import write_atomic

STYLE = Path(__file__).with_name("page.css")


def write_report(collection: Collection, runs_dir: Path, path: Path, records: Iterable[Record] | None = None) -> None:
    """Write report.html, atomically."""
    write_atomic(path, report_html(collection, runs_dir, records), durable=False)


def report_html(
    collection: Collection, runs_dir: Path, records: Iterable[Record] | None = None, now: float | None = None
) -> str:
    """The page. ``now`` (seconds since 1970) ends what is still going on."""
    now = time.time() if now is None else now
    known = list(records) if records is not None else list(read_records(collection, runs_dir))
    sections = [results_section(collection, known), failures_section(known)]
    shown = [section for section in sections if section is not None]
    body = join(
        [
            tag("header", overview(collection, known, now), _contents(shown)),
            tag("main", *(tag("section", tag("h2", title), content, id=key) for key, title, content in shown)),
            tag("footer", tag("p", f"Written {clock(now)} by Unbroken. Times are UTC.", class_="soft small")),
        ],
        "\n",
    )
    return (
        "<!doctype html>\n"
        + tag(
            "html",
            tag(
                "head",
                tag("meta", charset="utf-8"),
                tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
                tag("title", f"{collection.slug}: report"),
                tag("style", Markup(STYLE.read_text(encoding="utf-8"))),
            ),
            tag("body", body),
            lang="en",
        )
        + "\n"
    )


def _contents(sections: list[tuple[str, str, Markup]]) -> Markup:
    return tag(
        "nav",
        tag("ul", *(tag("li", tag("a", title, href=f"#{key}")) for key, title, _ in sections)),
        aria_label="Contents",
    )

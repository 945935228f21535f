"""report.html: one file that needs nothing else, readable without scripts, on a phone and on paper."""

import time
from collections.abc import Iterable
from pathlib import Path

from unbroken.collection import Collection
from unbroken.report.history import read_history
from unbroken.report.jobs import Jobs, ask_accounting
from unbroken.report.ledger import add_up
from unbroken.report.markup import Markup, join, tag
from unbroken.report.records import Record, read_records
from unbroken.report.resources import usage_by_setting
from unbroken.report.shapes import PATTERNS
from unbroken.report.text import clock
from unbroken.report.view_code import code_section
from unbroken.report.view_curves import curves_section
from unbroken.report.view_failures import failures_section
from unbroken.report.view_ledger import ledger_section
from unbroken.report.view_overview import overview
from unbroken.report.view_profiles import profiles_section
from unbroken.report.view_resources import resources_section
from unbroken.report.view_results import results_section
from unbroken.report.view_timeline import timeline_section
from unbroken.run_dir.files import write_atomic

STYLE = Path(__file__).with_name("page.css")


def write_report(collection: Collection, runs_dir: Path, path: Path, records: Iterable[Record] | None = None) -> None:
    """Write report.html, atomically."""
    write_atomic(path, report_html(collection, runs_dir, records), durable=False)


def report_html(
    collection: Collection,
    runs_dir: Path,
    records: Iterable[Record] | None = None,
    jobs: Jobs | None = None,
    now: float | None = None,
) -> str:
    """The page.

    Args:
        jobs: accounting; None asks Slurm, where it is there.
        now: seconds since 1970; ends what is still going on.
    """
    now = time.time() if now is None else now
    known = list(records) if records is not None else list(read_records(collection, runs_dir))
    jobs = ask_accounting(known) if jobs is None else jobs
    histories = [read_history(record, now, jobs.of(record)) for record in known]
    ledger = add_up(histories)
    sections = [
        failures_section(known, jobs),
        results_section(collection, known),
        timeline_section(histories),
        curves_section(histories),
        ledger_section(ledger),
        resources_section(usage_by_setting(histories, jobs.rows), jobs.note),
        code_section(known),
        profiles_section(known),
    ]
    shown = [section for section in sections if section is not None]
    body = join(
        [
            PATTERNS,
            tag("header", overview(collection, known, histories, ledger), _contents(shown)),
            tag("main", *(tag("section", tag("h2", title), content, id=key) for key, title, content in shown)),
            tag("footer", tag("p", f"Written {clock(now)} by Unbroken. All times are UTC.", class_="soft small")),
        ],
        "\n",
    )
    return f"<!doctype html>\n{tag('html', _head(collection.slug), tag('body', body), lang='en')}\n"


def _head(slug: str) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{slug}: report"),
        tag("style", Markup(STYLE.read_text(encoding="utf-8"))),
    )


def _contents(sections: list[tuple[str, str, Markup]]) -> Markup:
    links = (tag("li", tag("a", title, href=f"#{key}")) for key, title, _ in sections)
    return tag("nav", tag("ul", *links), aria_label="Contents")

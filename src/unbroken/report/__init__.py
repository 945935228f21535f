"""Tables and pages of a collection: summary.csv, report.html, and the summary on a terminal.

Names are imported on first use: the Snakefile asks for one of them only when a call ends.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbroken.report.outcome import conclude
    from unbroken.report.page import report_html, write_report
    from unbroken.report.summary import Summary, summarise, write_summary
    from unbroken.report.terminal import print_summary

__all__ = ["Summary", "conclude", "print_summary", "report_html", "summarise", "write_report", "write_summary"]

_HOME = {
    "Summary": "summary",
    "conclude": "outcome",
    "print_summary": "terminal",
    "report_html": "page",
    "summarise": "summary",
    "write_report": "page",
    "write_summary": "summary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

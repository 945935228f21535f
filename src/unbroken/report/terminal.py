"""The summary on a terminal: a short table, what is missing, and where everything lies."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unbroken.collection import Collection
from unbroken.report.outcome import failure_lines, outcome_line
from unbroken.report.records import read_records
from unbroken.report.results import Cell, setting_table, short_names
from unbroken.report.text import number

MOST_SETTINGS = 20
MOST_COLUMNS = 4


def print_summary(collection: Collection, runs_dir: Path, results_dir: Path, console: Console | None = None) -> None:
    """Print one row a setting (mean and spread over its finished seeds), then the runs that are not finished."""
    console = console or Console()
    records = list(read_records(collection, runs_dir, with_events=False))
    table = setting_table(collection, records)
    shown = table.metrics[:MOST_COLUMNS]
    grid = Table(title=f"{collection.slug}: mean ± standard deviation over seeds", title_justify="left")
    grid.add_column("setting", overflow="fold")
    grid.add_column("runs", justify="right")
    short = short_names(table.metrics)
    for name in shown:
        grid.add_column(short[name], justify="right", overflow="fold")
    for row in table.rows[:MOST_SETTINGS]:
        cells = [_cell(row.cells.get(name)) for name in shown]
        grid.add_row(Text(row.setting.label), f"{row.finished}/{row.total}", *cells)
    if records:
        console.print(grid)
    if len(table.rows) > MOST_SETTINGS:
        console.print(f"{len(table.rows) - MOST_SETTINGS} more settings are in the report.")
    if len(table.metrics) > len(shown):
        console.print(f"{len(table.metrics) - len(shown)} more measures are in summary.csv and the report.")
    home = Path(results_dir) / collection.slug
    line = outcome_line(records, collection.slug, home / "summary.csv", home / "report.html")
    console.print(Text(line), soft_wrap=True)
    for line in failure_lines(records):
        console.print(Text(line), soft_wrap=True)


def _cell(cell: Cell | None) -> str:
    if cell is None or cell.mean is None:
        return "-"
    spread = f" ± {number(cell.spread, 2)}" if cell.spread is not None else ""
    return f"{number(cell.mean)}{spread}"

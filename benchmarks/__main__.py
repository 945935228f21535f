"""``python -m benchmarks [--quick] [--write-docs] [ROW ...]``, and ``python -m benchmarks compare``."""

import argparse
import compileall
import importlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import machine, output
from benchmarks.harness import Figure
from benchmarks.options import Options
from benchmarks.processes import ROOT

ROWS = {
    1: "row_01_save", 2: "row_02_stall", 3: "row_03_loop", 4: "row_04_replay", 5: "row_05_exit", 6: "row_06_start",
    7: "row_07_seek", 8: "row_08_job", 9: "row_09_plan", 10: "row_10_status", 11: "row_11_launcher",
    12: "row_12_expand",
}  # fmt: skip
NEEDS_SLURM = (8,)
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    """Measure, print, write the JSON and the plot; 1 where a row could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="1 to 12, or compare; default: all rows")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds, without the test cluster")
    parser.add_argument("--write-docs", action="store_true", help="also write docs/performance.md")
    parser.add_argument("--folder", type=Path, default=ROOT / ".benchmarks", help="scratch; its disk is measured")
    given = parser.parse_args()
    compileall.compile_dir(ROOT / "src", quiet=1)  # as set-up does; a start must not compile what was edited since
    if given.rows == ["compare"]:
        return _compare(given.folder, given.write_docs)
    rows = [int(row) for row in given.rows] or [row for row in ROWS if not (given.quick and row in NEEDS_SLURM)]
    given.folder.mkdir(parents=True, exist_ok=True)
    facts = machine.facts(given.folder)
    figures: list[Figure] = []
    failed: dict[int, str] = {}
    for row in rows:
        folder = Path(tempfile.mkdtemp(prefix=f"row_{row}_", dir=given.folder))
        began = time.monotonic()
        try:
            found = importlib.import_module(f"benchmarks.{ROWS[row]}").measure(Options(given.quick, folder))
        except Exception as error:
            failed[row] = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"row {row} could not be measured: {failed[row]}", file=sys.stderr)
            continue
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        figures += found
        print(output.table(found, header=row == rows[0]) + f"   ({time.monotonic() - began:.0f} s)", flush=True)
    name = "quick" if given.quick else "full"
    if given.rows:
        others = _other_rows(name, rows)
        figures = sorted([*others, *figures], key=lambda figure: figure.row)
    _keep(name, {"machine": facts, "figures": [figure.as_json() for figure in figures], "failed": failed})
    (RESULTS / f"{name}.svg").write_text(output.plot(figures))
    print(output.machine_line(facts))
    if given.write_docs:
        output.write_docs(ROOT / "docs", RESULTS, ROWS)
    return 1 if failed else 0


def _compare(folder: Path, write_docs: bool) -> int:
    from benchmarks.compare import run

    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="compare_", dir=folder))
    result = run.measure(scratch)
    _keep("compare", {"machine": machine.facts(folder), **result})
    shutil.rmtree(scratch, ignore_errors=True)
    print(output.comparison_table(result))
    if write_docs:
        output.write_docs(ROOT / "docs", RESULTS, ROWS)
    return 0


def _other_rows(name: str, rows: list[int]) -> list[Figure]:
    """What an earlier call measured of the rows that this one leaves out."""
    path = RESULTS / f"{name}.json"
    known = output.read_figures(path) if path.exists() else []
    return [figure for figure in known if figure.row not in rows]


def _keep(name: str, content: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())

"""``python -m unbroken.report summary|page SLUG``: what the rules do, alone."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from unbroken.collection import load_config
from unbroken.errors import UnbrokenError
from unbroken.report import print_summary, write_report, write_summary


def main(argv: list[str]) -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m unbroken.report", description=__doc__)
    parser.add_argument("what", choices=("summary", "page"), help="write summary.csv and print it, or report.html")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="collections; default: those of config.yaml")
    parser.add_argument("--config", default="config/config.yaml", type=Path)
    runs_dir = os.environ.get("UNBROKEN_RUNS_DIR") or None
    parser.add_argument("--runs-dir", default=runs_dir, type=Path, help="if Snakemake was given another one")
    asked = parser.parse_args(argv)
    try:
        project = load_config(asked.config)
        if asked.runs_dir is not None:
            project = replace(project, runs_dir=asked.runs_dir)
        for slug in asked.slugs or project.collections:
            collection = project.load(slug)
            home = project.results_dir / slug
            if asked.what == "summary":
                write_summary(collection, project.runs_dir, home / "summary.csv")
                print_summary(collection, project.runs_dir, project.results_dir)
            else:
                write_report(collection, project.runs_dir, home / "report.html")
                print(home / "report.html")
    except UnbrokenError as error:
        print(f"unbroken: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

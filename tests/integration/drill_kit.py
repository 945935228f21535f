"""A collection in a folder of its own, and a drill of its first run without the command line."""

import sys
from pathlib import Path
from typing import Any

import yaml

from unbroken.collection import load_collection
from unbroken.drill.case import Outcome
from unbroken.drill.series import Drill, Plan, Report
from unbroken.drill.subject import make_subject

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"


def collection(folder: Path, slug: str, **keys: Any) -> Path:
    """Write config.yaml and one collection; the path of the latter."""
    path = folder / "config" / "collections" / f"{slug}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"seeds": 1, **keys}))
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump({"collections": [slug]}))
    return path


def command(script: str) -> str:
    """This Python on a trainer of the fixtures."""
    return f"{sys.executable} {FIXTURES / script}"


def drill(folder: Path, path: Path, *faults: str, changes: tuple[str, ...] = (), **plan: Any) -> Report:
    """Drill the collection's first run, two faults at a time."""
    scratch = folder / "scratch"
    scratch.mkdir()
    subject = make_subject(next(load_collection(path).runs()), changes, folder)
    report = Drill(subject, Plan(faults, **{"jobs": 2, "grace_s": 120.0, **plan}), scratch).run()
    assert not (folder / "runs").exists()
    return report


def by_fault(report: Report) -> dict[str, Outcome]:
    return {outcome.fault: outcome for outcome in report.outcomes}

"""Write results/<slug>/report.html. Alone: python -m unbroken.report page <slug>."""

from pathlib import Path
from typing import Any

from unbroken.collection import load_collection
from unbroken.report import write_report


def main(snakemake: Any) -> None:
    """Call write_report with what the rule says."""
    collection = load_collection(Path(snakemake.input.collection))
    write_report(collection, Path(snakemake.params.runs_dir), Path(snakemake.output[0]))


main(snakemake)  # type: ignore[name-defined]  # noqa: F821

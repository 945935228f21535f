"""Write results/<slug>/summary.csv. Alone: python -m unbroken.report summary <slug>."""

from pathlib import Path
from typing import Any

from unbroken.collection import load_collection
from unbroken.report import write_summary


def main(snakemake: Any) -> None:
    """Call write_summary with what the rule says."""
    collection = load_collection(Path(snakemake.input.collection))
    write_summary(collection, Path(snakemake.params.runs_dir), Path(snakemake.output[0]))


main(snakemake)  # type: ignore[name-defined]  # noqa: F821

"""Make manifest_train.csv for a collection's `data:`. Alone: python -m unbroken.data.make_manifest --help."""

import sys
from pathlib import Path
from typing import Any

from unbroken.data.manifest import make_manifest
from unbroken.errors import UnbrokenError


def main(snakemake: Any) -> None:
    """Call make_manifest with what the rule says."""
    root = Path(snakemake.params.camels_root) if snakemake.params.camels_root else None
    try:
        make_manifest(snakemake.params.data, Path(snakemake.output[0]).parent, root)
    except UnbrokenError as error:
        sys.exit(f"unbroken: {error}")


main(snakemake)  # type: ignore[name-defined]  # noqa: F821

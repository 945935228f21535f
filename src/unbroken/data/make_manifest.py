"""Make a manifest by hand: python -m unbroken.data.make_manifest --data FILE.yaml --out DIR [--camels-root DIR]."""

import argparse
from pathlib import Path

from unbroken.collection.yaml_io import Document
from unbroken.data.manifest import make_manifest
from unbroken.errors import CollectionError, UnbrokenError


def main() -> int:
    """Read a YAML file with the ``data:`` mapping (a collection will do) and write the manifest."""
    parser = argparse.ArgumentParser(prog="python -m unbroken.data.make_manifest", description=main.__doc__)
    parser.add_argument("--data", required=True, type=Path, help="a collection or run config with `data:`")
    parser.add_argument("--out", required=True, type=Path, help="folder for the manifest and its files")
    parser.add_argument("--camels-root", type=Path, help="folder with daymet/, maurer/, nldas/, usgs_streamflow/")
    arguments = parser.parse_args()
    try:
        content = Document.read(arguments.data).data
        data = content.get("data", content)
        if not isinstance(data, dict):
            raise CollectionError(f"{arguments.data}: data is {data!r}; give a mapping")
        print(make_manifest(data, arguments.out, arguments.camels_root))
    except UnbrokenError as error:
        parser.exit(error.exit_code, f"unbroken: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

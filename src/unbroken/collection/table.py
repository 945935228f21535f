"""The CSV table of a collection: one setting a row."""

import csv
from pathlib import Path
from typing import Any

from unbroken.collection._sentence import Place, show
from unbroken.collection.yaml_io import read_text, scalar


def read_table(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """(line, keys and values) of each row; an empty cell leaves the key to the base config, ``null`` is null.

    Raises CollectionError.
    """
    place = Place(str(path))
    reader = csv.reader(read_text(path).splitlines(keepends=True), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if not any(header):
            raise place.error((), "has no header; write the keys, separated by commas, into its first line")
        if "" in header:
            raise place.error((), f"has no name over column {header.index('') + 1}; write its key there")
        repeated = next((key for key in header if header.count(key) > 1), None)
        if repeated is not None:
            raise place.error((), f"has two columns {show(repeated)}; remove one")
        rows = [(reader.line_num, _row(reader.line_num, cells, header, place)) for cells in reader if any(cells)]
    except csv.Error as error:
        raise Place(f"{path}, line {reader.line_num}").error(
            (), f"is not valid CSV ({error}); mend that line"
        ) from None
    if not rows:
        raise place.error((), "has a header but no rows; add a row or remove `table:` from the collection")
    return rows


def _row(line: int, cells: list[str], header: list[str], place: Place) -> dict[str, Any]:
    here = Place(f"{place.name}, line {line}")
    if len(cells) != len(header):
        raise here.error((), f"has {len(cells)} cells under {len(header)} columns; quote cells that hold a comma")
    values: dict[str, Any] = {}
    for key, cell in zip(header, cells, strict=True):
        if not cell.strip():
            continue
        try:
            values[key] = scalar(cell.strip())
        except ValueError as error:
            raise here.error((), f"column {show(key)}: {error}") from None
    return values

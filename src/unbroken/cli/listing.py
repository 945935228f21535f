"""Add a slug to `collections:` of config.yaml, the rest of the file as it is."""

import re
from pathlib import Path

from unbroken.collection.yaml_io import Document
from unbroken.run_dir.files import write_atomic

_BLOCK = re.compile(
    r"^collections:[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*(?:(?P<dash>[ \t]*-[ \t]+).*\n?)+", re.MULTILINE
)
_FLOW = re.compile(r"^collections:[ \t]*\[(?P<items>[^\]\n#]*)\]", re.MULTILINE)


def add_to_config(config: Path, slug: str) -> bool:
    """True where it is listed now. False where the file is written in a way that is left to a person.

    Raises:
        CollectionError: the file cannot be read. OSError: it cannot be written.
    """
    text = config.read_bytes().decode("utf-8")
    before = Document(str(config), text).data
    if slug in before.get("collections", ()):
        return True
    new = _added(text, slug)
    if new is None:
        return False
    if Document(str(config), new).data != {**before, "collections": [*before["collections"], slug]}:
        return False
    write_atomic(config, new)
    return True


def _added(text: str, slug: str) -> str | None:
    block = _BLOCK.search(text)
    if block:
        line = "" if block[0].endswith("\n") else "\n"
        return f"{text[: block.end()]}{line}{block['dash']}{slug}\n{text[block.end() :]}"
    flow = _FLOW.search(text)
    if flow:
        comma = ", " if flow["items"].strip() else ""
        return f"{text[: flow.end('items')]}{comma}{slug}{text[flow.end('items') :]}"
    return None

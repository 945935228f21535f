"""A project in the working directory, and the command line on it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from unbroken.cli import main
from unbroken.collection import load_collection
from unbroken.collection.run_dir import RunPaths


class Cli:
    """A project in the working directory, and the command line on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.collections = folder / "config" / "collections"
        self.collections.mkdir(parents=True)
        self.config(collections=["x"])

    def config(self, **keys: Any) -> None:
        (self.folder / "config" / "config.yaml").write_text(yaml.safe_dump(keys))

    def add(self, slug: str = "x", **keys: Any) -> None:
        (self.collections / f"{slug}.yaml").write_text(yaml.safe_dump({"command": "true", "seeds": 2, **keys}))

    def __call__(self, *words: str) -> tuple[int, str]:
        try:
            main(words)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        said = self._capsys.readouterr()
        return code, said.out + said.err

    def runs(self, slug: str = "x") -> list[RunPaths]:
        return [run.paths("runs") for run in load_collection(self.collections / f"{slug}.yaml").runs()]

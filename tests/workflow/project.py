"""A project folder of its own for a test: our workflow, the test's collections."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "toy_trainer.py"


class Project:
    """Our Snakefile, rules and profiles by link; config, runs and results are the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "config" / "collections").mkdir(parents=True)
        for name in ("Snakefile", "workflow", "profiles", "slurm"):
            (folder / name).symlink_to(ROOT / name)
        self.slugs: list[str] = []

    def add(self, slug: str, listed: bool = True, **keys: Any) -> None:
        """A collection; a toy by default."""
        collection = {"seeds": 1, **keys}
        if "trainer" not in collection:
            collection.setdefault("command", f"{sys.executable} {TOY}")
        path = self.folder / "config" / "collections" / f"{slug}.yaml"
        path.write_text(yaml.safe_dump(collection, sort_keys=False))
        if listed and slug not in self.slugs:
            self.slugs.append(slug)
        self.write_config()

    def write_config(self, **more: Any) -> None:
        config = {"collections": self.slugs, **more}
        (self.folder / "config" / "config.yaml").write_text(yaml.safe_dump(config))

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--nocolor", *arguments]

    def snakemake(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Snakemake to its end; stdout and stderr together in `stdout`."""
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.folder,
            env=env or clean_env(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
            check=False,
        )

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start Snakemake in a process group of its own, as a shell does; its output goes to snakemake.log."""
        with open(self.folder / "snakemake.log", "a") as log:
            return subprocess.Popen(
                self.argv(*arguments),
                cwd=self.folder,
                env=env or clean_env(),
                text=True,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self) -> str:
        return (self.folder / "snakemake.log").read_text()

    def runs(self, slug: str) -> list[Path]:
        return sorted((self.folder / "runs" / slug).glob("*/seed_*"))

    def forget(self, slug: str) -> None:
        shutil.rmtree(self.folder / "runs" / slug, ignore_errors=True)


def clean_env() -> dict[str, str]:
    """The environment without what an outer Snakemake or Slurm job would leave in it."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("UNBROKEN_", "SLURM_"))}

"""Puts the workflow into the wheel, as unbroken/_project: `unbroken init` makes a project of it."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PARTS = ("Snakefile", "workflow", "profiles", "config", "examples")


class BuildWithWorkflow(build_py):
    """The package's modules, then the files of a project; links are followed."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "unbroken" / "_project"
        shutil.rmtree(target, ignore_errors=True)
        skip = shutil.ignore_patterns("__pycache__", "*.pyc", ".snakemake")
        for part in PARTS:
            source = Path(__file__).parent / part
            if source.is_dir():
                shutil.copytree(source, target / part, ignore=skip)
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / part)


setup(cmdclass={"build_py": BuildWithWorkflow})

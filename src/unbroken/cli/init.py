"""`unbroken init`: a project folder with the workflow that this package carries."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

import unbroken
from unbroken.errors import UnbrokenError

PARTS = ("Snakefile", "workflow", "profiles", "config", "examples")
"""What a project is made of; setup.py puts it into the wheel as unbroken/_project."""
_IGNORED = "/runs/\n/results/\n/data/\n.snakemake/\n__pycache__/\n"
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", ".snakemake")


def command(
    folder: Annotated[Path, typer.Argument(help="Where the project is to be; made if it is not there.")] = Path("."),
) -> None:
    """Put Snakefile, workflow/, profiles/, config/ and examples/ into a folder. Never overwrites a file."""
    source = project_source()
    made, kept = [], []
    try:
        for path in files_of(source):
            target = folder / path.relative_to(source)
            if target.exists() or target.is_symlink():
                kept.append(target)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            made.append(target)
        _link(folder)
        if not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text(_IGNORED, encoding="utf-8")
    except OSError as error:
        raise UnbrokenError(f"{error.filename or folder}: {error.strerror or error}") from None
    print(f"{folder}: {len(made)} files written" + (f", {len(kept)} were there already and stay" if kept else ""))
    print(
        f"  cd {folder}\n  snakemake demo             train a small collection here\n"
        "  unbroken new my_runs       write your own"
    )


def project_source() -> Path:
    """Where the workflow lies: in the wheel, or at the top of the repository."""
    package = Path(unbroken.__file__).parent
    for place in (package / "_project", package.parents[1]):
        if (place / "Snakefile").is_file():
            return place
    raise UnbrokenError(f"this installation of unbroken carries no workflow (looked in {package / '_project'})")


def files_of(source: Path) -> list[Path]:
    """The files of a fresh project; of the collections, the demo alone."""
    found = [source / "Snakefile"]
    for part in PARTS[1:]:
        found += [path for path in sorted((source / part).rglob("*")) if path.is_file() and _wanted(path, source)]
    return found


def _wanted(path: Path, source: Path) -> bool:
    name = path.relative_to(source)
    if "__pycache__" in name.parts or ".snakemake" in name.parts:
        return False
    return name.parts[:2] != ("config", "collections") or name.name == "demo.yaml"


def _link(folder: Path) -> None:
    """``slurm``, so that the literal `snakemake --profile slurm` finds the profile; a copy where links cannot be."""
    link = folder / "slurm"
    if link.exists() or link.is_symlink():
        return
    try:
        link.symlink_to(Path("profiles") / "slurm")
    except OSError:
        shutil.copytree(folder / "profiles" / "slurm", link, ignore=_NOT_COPIED)

"""The import rules of docs/architecture.md, and the length of files."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
LIGHT = ["errors", "exit_codes", "collection", "run_dir", "slurm", "launch", "cli"]
"""Parsed or started several times for a Slurm job, or by a person who waits: none of them imports torch."""
LONGEST = 300


def imports(path: Path) -> set[str]:
    """Top-level names of all modules that a file imports, lazily or not."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def files(part: str) -> list[Path]:
    there = SRC / "unbroken" / part
    return sorted(there.rglob("*.py")) if there.is_dir() else [there.with_suffix(".py")]


@pytest.mark.parametrize("part", LIGHT)
def test_the_light_parts_import_no_torch(part: str) -> None:
    heavy = ("torch", "unbroken.training", "unbroken.trainers")
    for path in files(part):
        found = {name for name in imports(path) if name.split(".")[0] == "torch" or name.startswith(heavy)}
        if part == "cli":  # commands that act on checkpoints import them when they are called, not before
            found -= {name for name in found if name not in top_level_imports(path)}
        assert not found, f"{path} imports {found}"


def top_level_imports(path: Path) -> set[str]:
    module = ast.parse(path.read_text())
    module.body = [node for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = set()
    for node in module.body:
        names |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else {node.module or ""}
    return names


def test_the_package_imports_no_snakemake() -> None:
    for path in sorted((SRC / "unbroken").rglob("*.py")):
        assert not {name for name in imports(path) if name.split(".")[0].startswith("snakemake")}, path


def test_what_the_snakefile_imports_loads_no_torch_and_no_pandas() -> None:
    code = (
        "import sys, unbroken.collection.load, unbroken.collection.project, unbroken.launch.memory, "
        "unbroken.slurm.submission, unbroken.launch.launcher, unbroken.cli\n"
        "print(sorted({'torch', 'pandas', 'numpy', 'snakemake'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_stay_short() -> None:
    files = [*SRC.rglob("*.py"), *(ROOT / "workflow").rglob("*.smk")]
    long = {str(path): lines for path in files if (lines := len(path.read_text().splitlines())) > LONGEST}
    assert not long

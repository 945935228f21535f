"""The wheel, installed where nothing of the repository is: init, run the demo; and the workflow as a module."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.workflow.project import ROOT, TOY, Project, clean_env

SOURCES = (
    "src",
    "workflow",
    "profiles",
    "config",
    "examples",
    "Snakefile",
    "setup.py",
    "pyproject.toml",
    "MANIFEST.in",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel holds, to be put on PYTHONPATH before the editable install."""
    build, target = tmp_path_factory.mktemp("build"), tmp_path_factory.mktemp("installed")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, build / name, symlinks=False, ignore=skip)
        else:
            shutil.copy(ROOT / name, build / name)
    if (ROOT / "README.md").exists():
        shutil.copy(ROOT / "README.md", build / "README.md")
    else:
        (build / "README.md").write_text("")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "-w", str(build), str(build)], check=True)
    (wheel,) = build.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def environment(installed: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**clean_env(), "PYTHONPATH": str(installed), "PATH": path}


def python(installed: Path, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(installed),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
def test_a_fresh_folder_from_the_wheel_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    where = python(installed, tmp_path, "-c", "import unbroken; print(unbroken.__file__)")
    assert where.startswith(str(installed))
    python(installed, tmp_path, "-m", "unbroken.cli", "init", "fresh")
    folder = tmp_path / "fresh"
    assert not [path for path in folder.rglob("*") if path.is_symlink() and path.name != "slurm"]
    assert "demo: 2 settings x 2 seeds" in python(installed, folder, "-m", "unbroken.cli", "check")
    said = python(installed, folder, "-m", "snakemake", "--nocolor", "--cores", "2", "demo")
    assert len(list(folder.glob("runs/demo/*/seed_*/result.json"))) == 4, said
    assert (folder / "results" / "demo" / "report.html").stat().st_size > 1000
    attempt = next(folder.glob("runs/demo/*/seed_0/events.jsonl")).read_text()
    assert str(ROOT) not in attempt.replace(sys.executable, "")


@pytest.mark.slow
def test_as_a_module_as_snakedeploy_writes_it(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.add("x", config={"steps": 2}, command=f"{sys.executable} {TOY}")
    (tmp_path / "Snakefile").unlink()
    (tmp_path / "workflow").unlink()
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow" / "Snakefile").write_text(
        f'configfile: "config/config.yaml"\n\nmodule unbroken:\n    snakefile:\n        "{ROOT}/Snakefile"\n'
        "    config:\n        config\n\nuse rule * from unbroken\n"
    )
    done = project.snakemake("x", "--cores", "1")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "results" / "x" / "summary.csv").is_file()


def test_the_catalog_file_is_what_the_catalog_reads() -> None:
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["mandatory-flags"]) == {"desc", "flags"} and usage["report"] is True
    assert (ROOT / "config" / "README.md").is_file()  # the catalog shows it


def test_the_wheel_names_every_part_of_a_project() -> None:
    import ast

    from unbroken.cli.init import PARTS

    tree = ast.parse((ROOT / "setup.py").read_text())
    (parts,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(parts) == PARTS

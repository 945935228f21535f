"""Hostile names and values through the real local workflow: nothing of them is ever run by a shell."""

import json
import sys
from pathlib import Path

import pytest

from tests.workflow.project import Project, starts_of
from unbroken.collection import load_collection
from unbroken.collection.project import check_folder, check_given, load_config
from unbroken.errors import CollectionError

NASTY = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "a b\tc",
    "two\nlines",
    "{seed} {{x}} {",
    "\\' \\",
    "--help",
    "ünï – 数 🜁",
    "*?[a-z]~",
    "%s %j $HOME ${HOME}",
    "!!python/object/apply:os.system ['touch pwned']",
]
SCRIPT = """
import json, os, runpy, sys
from pathlib import Path
import yaml
run = Path(os.environ["UNBROKEN_RUN_DIR"])
config = yaml.safe_load(Path(os.environ["UNBROKEN_CONFIG"]).read_text())
(run / "seen.json").write_text(json.dumps({"argv": sys.argv[1:], "config": config}))
runpy.run_path(TOY, run_name="__main__")
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Project:
    folder = tmp_path / "my project & more; ünï"
    folder.mkdir()
    return Project(folder)


def nothing_was_run(folder: Path) -> None:
    assert not [path for path in folder.parent.rglob("pwned*")]


def test_values_paths_and_arguments_stay_what_they_are(hostile: Project) -> None:
    toy = Path(__file__).parents[1] / "toy_trainer.py"
    script = hostile.folder / 'tr\'ain "$(touch pwned)".py'
    script.write_text(SCRIPT.replace("TOY", repr(str(toy))))
    words = [
        sys.executable,
        str(script.name),
        "$(touch pwned)",
        "`touch pwned`",
        "a'b\"c",
        "{{seed}}",
        "{run_dir}",
        "--x={seed}",
    ]
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    config = {"steps": 1, "list": NASTY, "nested": {"$(touch pwned)": {"`k`": NASTY[0]}}}
    hostile.add("x", command=quoted, config=config, grid={"va lue": NASTY}, description=NASTY[2])
    hostile.write_config(runs_dir="ru ns'\"$(touch pwned)`touch pwned`; ü", results_dir="re's\"ults $(touch pwned)")
    done = hostile.snakemake("x", "--cores", "2", "--retries", "0")
    assert done.returncode == 0, done.stdout[-4000:]
    nothing_was_run(hostile.folder)
    runs_dir = hostile.folder / "ru ns'\"$(touch pwned)`touch pwned`; ü"
    collection = load_collection(hostile.folder / "config" / "collections" / "x.yaml")
    values = []
    for run in collection.runs():
        paths = run.paths(runs_dir)
        seen = json.loads((paths.root / "seen.json").read_text())
        assert seen["argv"] == [*words[2:5], "{seed}", str(paths.root), "--x=0"]
        assert seen["config"]["list"] == NASTY and seen["config"]["nested"] == config["nested"]
        values.append(seen["config"]["va lue"])
        assert starts_of(paths.root) == [0] and paths.result.exists()
    assert sorted(values) == sorted(NASTY)


def test_a_project_folder_that_snakemake_cannot_quote_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a'$(touch pwned)"
    folder.mkdir()
    project = Project(folder)
    project.add("x", config={"steps": 1})
    done = project.snakemake("x", "--cores", "1")
    assert done.returncode != 0 and "rename the folder" in done.stdout, done.stdout
    nothing_was_run(folder)
    assert not project.runs("x")


@pytest.mark.parametrize("character", ["'", '"', "$", "`", "\\", "\n", "{", "\x1b"])
def test_folders_that_are_refused(character: str) -> None:
    check_folder("/home/me/my project & more; ünï")
    with pytest.raises(CollectionError, match="rename the folder"):
        check_folder(f"/home/me/a{character}b")


@pytest.mark.parametrize("key", ["runs_dir", "results_dir", "collections_dir"])
@pytest.mark.parametrize("folder", ["ru{ns}", "ru\nns"])
def test_a_folder_that_snakemake_would_take_for_a_pattern_is_refused(key: str, folder: str) -> None:
    with pytest.raises(CollectionError, match=f"`{key}`"):
        load_config({"collections": ["x"], key: folder})


@pytest.mark.parametrize("listed", ["$(touch pwned)", "../escape", "x; touch pwned", "a b", "x\n", "X", ""])
def test_what_is_no_slug_is_refused(listed: str) -> None:
    with pytest.raises(CollectionError, match=r"collections\[0\]"):
        load_config({"collections": [listed]})


def test_file_names_that_are_no_slugs_harm_nobody(hostile: Project) -> None:
    hostile.add("x", config={"steps": 1})
    for name in ("$(touch pwned).yaml", "a b.yaml", "x; touch pwned.yaml", "`touch pwned`.yaml", "../escape.yaml"):
        (hostile.folder / "config" / "collections" / name).write_text("nonsense")
    assert hostile.snakemake("-n", "x").returncode == 0
    nothing_was_run(hostile.folder)


def test_links_out_of_the_run_directory(hostile: Project) -> None:
    """Folders may lie elsewhere, as people put checkpoints on scratch; a linked file is replaced, not followed."""
    hostile.add("x", config={"steps": 3})
    collection = load_collection(hostile.folder / "config" / "collections" / "x.yaml")
    paths = next(collection.runs()).paths(hostile.folder / "runs")
    outside = hostile.folder / "outside"
    for folder in ("lease", "logs", "checkpoints"):
        (outside / folder).mkdir(parents=True)
        (outside / folder / "precious").write_text("mine")
        paths.root.mkdir(parents=True, exist_ok=True)
        (paths.root / folder).symlink_to(outside / folder)
    for file in ("run_status.json", "config.yaml"):
        (outside / file).write_text('{"status": "$(touch pwned)"}')
        (paths.root / file).symlink_to(outside / file)
    done = hostile.snakemake("x", "--cores", "1")
    assert done.returncode == 0, done.stdout
    assert (outside / "run_status.json").read_text() == (outside / "config.yaml").read_text() != ""
    assert "touch" in (outside / "config.yaml").read_text() and not paths.config.is_symlink()
    assert all((outside / folder / "precious").read_text() == "mine" for folder in ("lease", "logs", "checkpoints"))
    assert (outside / "checkpoints" / "last.pt").exists() and paths.result.is_file()
    nothing_was_run(hostile.folder)


@pytest.mark.parametrize("key", ["gres", "slurm_partition", "qos", "slurm_extra", "runtime"])
@pytest.mark.parametrize("value", ["gpu:1\n", "x$(touch pwned)", "x`touch pwned`", "x; touch pwned", "x\nscancel"])
def test_resources_that_a_shell_would_read_are_refused(tmp_path: Path, key: str, value: str) -> None:
    (tmp_path / "x.yaml").write_text(json.dumps({"command": "true", "seeds": 1, "resources": {key: value}}))
    with pytest.raises(CollectionError, match=rf"resources\.{key}"):
        load_collection(tmp_path / "x.yaml")


def test_what_the_shell_gives_and_a_job_would_run_is_refused() -> None:
    check_given(["collections=[a,b]", 'data_roots={"camels": "/data/c a"}', "seeds=3"])
    for value in ("$(touch pwned)", "`touch pwned`", "a'b", "a\\b", "a\nb"):
        with pytest.raises(CollectionError, match="reach a shell"):
            check_given([f"runs_dir={value}"])

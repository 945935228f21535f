"""`snakemake --config collections=[...] seeds=...` from the shell."""

from pathlib import Path

import pytest

from tests.workflow.project import Project
from unbroken.collection.project import load_config
from unbroken.errors import CollectionError


def results(text: str) -> set[str]:
    return {word for word in text.replace(",", " ").split() if word.endswith("result.json")}


def test_collections_and_seeds_from_the_shell(project: Project) -> None:
    for slug in "abc":
        project.add(slug, config={"steps": 1, "hidden": 3}, seeds=[0, 4])
    done = project.snakemake("b", "--cores", "2")
    assert done.returncode == 0, done.stdout
    kept = {path: (path / "result.json").read_bytes() for path in project.runs("b")}
    assert [path.name for path in kept] == ["seed_0", "seed_4"]
    dry = project.snakemake("-n", "--config", "collections=[a,b]", "seeds=[4,5]")
    assert dry.returncode == 0, dry.stdout
    wanted = {tuple(Path(name).parts[1::2]) for name in results(dry.stdout)}
    assert {slug for slug, _ in wanted} == {"a", "b"}
    done = project.snakemake("--cores", "2", "--config", "collections=[a,b]", "seeds=[4,5]")
    assert done.returncode == 0, done.stdout
    assert [path.name for path in project.runs("a")] == ["seed_4", "seed_5"] and not project.runs("c")
    assert [path.name for path in project.runs("b")] == ["seed_0", "seed_4", "seed_5"]
    assert len({path.parent for path in project.runs("b")}) == 1
    assert {path: (path / "result.json").read_bytes() for path in kept} == kept


def test_a_mistake_on_the_shell_is_one_sentence(project: Project) -> None:
    project.add("a", config={"steps": 1})
    done = project.snakemake("-n", "--config", "seeds=none")
    assert done.returncode != 0 and '`seeds` is "none"' in done.stdout and "Traceback" not in done.stdout


@pytest.mark.parametrize("seeds", [0, [], [1, 1], [-1], True, "3"])
def test_bad_seeds_are_refused(tmp_path: Path, seeds: object) -> None:
    (tmp_path / "a.yaml").write_text("command: x\nseeds: 1\n")
    with pytest.raises(CollectionError, match="seeds"):
        load_config({"collections": ["a"], "collections_dir": str(tmp_path), "seeds": seeds}).load("a")


def test_more_seeds_never_move_a_setting(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("command: x\nconfig: {lr: 1}\nseeds: 2\n")
    config = {"collections": ["a"], "collections_dir": str(tmp_path)}
    few = {str(run.paths("runs").root) for run in load_config(config).load("a").runs()}
    many = {str(run.paths("runs").root) for run in load_config({**config, "seeds": 5}).load("a").runs()}
    assert len(few) == 2 and len(many) == 5 and few < many

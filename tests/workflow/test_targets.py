"""What a command line names: a slip is one message, everything else that Snakemake takes stays as it was."""

import pytest

from tests.workflow.project import Project
from unbroken.collection.targets import named_slugs


@pytest.fixture
def toys(project: Project) -> Project:
    """Two collections that are listed, and a broken one that nobody names."""
    for slug in ("toy", "rivers"):
        project.add(slug, config={"steps": 1})
    project.add("to", listed=False, nonsense=1)
    return project


def test_a_slip_names_the_collection_that_is_near(toys: Project) -> None:
    done = toys.snakemake("-n", "rivres", "--cores", "2")
    assert done.returncode != 0
    assert "no collection 'rivres', and no rule has that name or makes that file; did you mean `rivers`?" in done.stdout
    assert "MissingRuleException" not in done.stdout and "Traceback" not in done.stdout
    assert "are: rivers, to, toy" in toys.snakemake("--profile", "slurm", "-n", "quite_another").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["toy"],
        ["all", "--quiet", "rules"],
        ["--until", "train_toy"],
        ["--config", "seeds=1", "--", "toy"],
        ["--cores", "2"],
        ["extra"],
    ],
)
def test_what_is_no_slip_is_left_alone(toys: Project, words: list[str]) -> None:
    """Rules, values of options, and a rule that the user's own Snakefile adds after ours."""
    own = toys.folder / "own.smk"
    own.write_text('include: "Snakefile"\n\nrule extra:\n    output: "extra"\n    shell: "touch {output}"\n')
    snakefile = ["--snakefile", "own.smk"] if words == ["extra"] else []
    done = toys.snakemake("-n", *snakefile, *words)
    assert done.returncode == 0, done.stdout


def test_a_slug_is_named_as_a_whole_word() -> None:
    slugs = ["a", "to", "toy", "toy-2", "big_one"]

    def named(*arguments: str) -> list[str]:
        return named_slugs(slugs, arguments)

    assert named("toy", "--cores", "all", "--profile", "slurm") == ["toy"]
    assert named("runs/toy-2/0123456789ab/seed_0/result.json") == ["toy-2"]
    assert named("--target-jobs", "train_big_one:collection=big_one,setting=0123456789ab,seed=0") == ["big_one"]
    assert named("--forcerun", "train_to") == ["to"] and named("--config", "collections=[a,toy]") == ["a", "toy"]

"""What Snakemake's own linter says of the workflow: nothing but two lints that we do not follow, on purpose."""

import re

from tests.workflow.project import Project

NOT_FOLLOWED = {
    # Snakemake deletes a declared log before each attempt; ours are in the run directory, one file an attempt.
    "No log directive defined",
    # One environment for the workflow and its jobs, pinned by constraints.txt; a trainer of one's own brings its own.
    "Specify a conda environment or container for each rule.",
}


def test_the_workflow_has_no_other_lints(project: Project) -> None:
    project.add("toy", config={"steps": 1})
    done = project.snakemake("--lint", "json")
    found = set(re.findall(r"^    \* (.*?\.?):$", done.stdout, flags=re.MULTILINE))
    assert found <= NOT_FOLLOWED, done.stdout
    assert found, "the linter's answer has another form now"

"""What reaches Slurm's command line: a strict sbatch of our own records it, runs the job, and then refuses it."""

import json
import shlex
import stat
import sys
from pathlib import Path

import pytest

from tests.workflow.project import Project, clean_env, starts_of
from unbroken.collection import load_collection

SBATCH = """#!{python}
import json, subprocess, sys
record = {folder!r} + "/sbatch.json"
options, rest = {{}}, sys.argv[1:]
flags = {{"--parsable", "--requeue"}}
valued = {{"--job-name", "--output", "--comment", "-t", "--mem", "-D", "--cpus-per-task", "-c", "-A", "-p", "-C"}}
while rest:
    word = rest.pop(0)
    name, equals, value = word.partition("=")
    if word in flags:
        options[word] = True
    elif name in valued and not equals:
        options[name] = rest.pop(0)
    elif equals and name.startswith("--"):
        options[name] = value
    else:
        sys.exit("sbatch: error: unknown argument " + repr(word))
open(record, "w").write(json.dumps(options))
with open({folder!r} + "/job.log", "w") as log:
    subprocess.run(["/bin/sh", "-c", options["--wrap"]], stdout=log, stderr=log)
sys.exit("sbatch: error: Batch job submission failed: Invalid account")
"""
EMPTY = "#!/bin/sh\nexit 0\n"


def install(folder: Path) -> dict[str, str]:
    """Fakes of the Slurm commands, first on PATH."""
    fakes = folder / "fakes"
    fakes.mkdir()
    programs = {"sbatch": SBATCH.format(python=sys.executable, folder=str(folder))}
    for name in ("squeue", "sacct", "scontrol", "scancel", "sinfo", "sacctmgr"):
        programs[name] = EMPTY
    for name, text in programs.items():
        (fakes / name).write_text(text)
        (fakes / name).chmod(0o755 | stat.S_IXUSR)
    return {**clean_env(), "PATH": f"{fakes}:{clean_env()['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize("runs_dir", ["ru ns'\"$(touch pwned)`touch pwned`; ü"])
def test_nothing_of_a_collection_is_expanded_on_the_way_to_sbatch(tmp_path: Path, runs_dir: str) -> None:
    folder = tmp_path / "my project; & ü"
    folder.mkdir()
    project = Project(folder)
    name = "$(touch pwned)`touch pwned`'\"; touch pwned #\n{x} --wrap=x"
    project.add("x", config={"steps": 1}, grid={"na me": [name, "other"]}, resources={"runtime": 5, "mem_mb": 100})
    project.write_config(runs_dir=runs_dir)
    environment = install(folder)
    run = next(load_collection(folder / "config" / "collections" / "x.yaml").runs())
    target = str(run.paths(runs_dir).result)
    arguments = ("--profile", "slurm", "--retries", "0", "--config", "seeds=2", "--", target)
    done = project.snakemake(*arguments, env=environment)
    assert done.returncode != 0 and "Invalid account" in done.stdout, done.stdout[-3000:]
    assert not list(tmp_path.rglob("pwned*"))
    options = json.loads((folder / "sbatch.json").read_text())
    assert options["--comment"] == f"rule_train_x_wildcards_x_{run.setting}_0"
    assert set(options["--job-name"]) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,=+/-")
    assert len(options["--job-name"]) <= 64 and "na_me" in options["--job-name"]
    words = shlex.split(options["--wrap"])
    assert str(folder / "Snakefile") in words and str(folder) in options["--wrap"]
    assert "seeds=2" in " ".join(words)

    # The batch script, in a shell as slurmstepd starts it, has trained the run that was asked for. (Its result is gone:
    # Snakemake takes away what a failed job leaves, and this job was refused.)
    assert "completed: finished" in (folder / "job.log").read_text()
    assert starts_of(run.paths(folder / runs_dir).root) == [0]
    assert not list(tmp_path.rglob("pwned*"))

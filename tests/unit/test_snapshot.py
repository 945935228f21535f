"""Pinned code and its record: real repositories in temporary folders."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from unbroken.collection.operational import parse_flag
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import RunDirectoryError
from unbroken.run_dir.events import read_events
from unbroken.snapshot import git, make
from unbroken.snapshot.pinned import SnapshotError, read
from unbroken.snapshot.record import Fingerprint, fingerprint, git_fingerprint, note


def run_git(folder: Path, *arguments: str) -> str:
    options = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *options, *arguments], cwd=folder, text=True, capture_output=True, check=True
    ).stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit, and a project in a folder of it."""
    top = tmp_path / "re po"
    folder = top / "pro'ject"
    (folder / "config").mkdir(parents=True)
    (folder / "train.py").write_text("old\n")
    (folder / "config" / "config.yaml").write_text("collections: [x]\n")
    (top / ".gitignore").write_text("*.log\n")
    run_git(top, "init", "-q", "-b", "main")
    run_git(top, "add", ".")
    run_git(top, "commit", "-qm", "first")
    return folder


def home(project: Path) -> Path:
    return project / "runs" / "x" / ".code"


def pin(project: Path) -> Path:
    pinned = make.ensure(home(project), project, [project / "runs"])
    return pinned.workdir(home(project))


def test_local_changes_are_in_it_and_nothing_of_the_user_is_touched(project: Path) -> None:
    (project / "train.py").write_text("changed\n")
    (project / "new 'file'\n.py").write_text("new\n")
    (project / "secret.log").write_text("ignored\n")
    run_git(project, "add", "train.py")
    before = run_git(project, "status", "--porcelain"), run_git(project, "log", "--all", "--oneline")
    workdir = pin(project)
    assert (workdir / "train.py").read_text() == "changed\n"
    assert (workdir / "new 'file'\n.py").read_text() == "new\n"
    assert not (workdir / "secret.log").exists() and not (workdir / "runs").exists()
    assert run_git(project, "status", "--porcelain", "--", ".", ":!runs") == before[0]
    assert run_git(project, "branch", "--list") == "* main"
    assert run_git(workdir, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    pinned = read(home(project))
    assert pinned is not None and len(pinned.changed) == 2 and "2 local changes" in str(pinned)
    assert "+changed" in (home(project) / f"{pinned.id}.patch").read_text()


def test_a_clean_tree_is_its_own_commit(project: Path) -> None:
    workdir = pin(project)
    assert run_git(workdir, "rev-parse", "HEAD") == run_git(project, "rev-parse", "HEAD")
    assert not list(home(project).glob("*.patch"))


def test_kept_restored_and_removed(project: Path) -> None:
    workdir = pin(project)
    (project / "train.py").write_text("later\n")
    assert pin(project) == workdir and (workdir / "train.py").read_text() == "old\n"
    tree = home(project) / next(path.name for path in home(project).iterdir() if path.is_dir())
    subprocess.run(["rm", "-rf", str(tree)], check=True)
    run_git(project, "gc", "-q", "--prune=now")
    assert (pin(project) / "train.py").read_text() == "old\n"
    assert make.remove(home(project)) and not make.remove(home(project))
    assert read(home(project)) is None and not tree.exists()
    assert len(run_git(project, "worktree", "list").splitlines()) == 1
    assert run_git(project, "for-each-ref", "refs/unbroken") == ""


def test_no_hook_of_the_repository_is_run(project: Path) -> None:
    hook = project.parent / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(0o755)
    assert not (pin(project).parent / "hooked").exists()


def test_what_is_too_large_for_code_is_left_out_and_named(project: Path) -> None:
    with open(project / "data.bin", "wb") as file:
        file.truncate(git.LARGEST_FILE + 1)
    workdir = pin(project)
    pinned = read(home(project))
    assert pinned is not None and pinned.left_out == ["pro'ject/data.bin"] and not (workdir / "data.bin").exists()


def test_without_git_the_files_are_copied(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    for name in ("train.py", "lib/a.py", ".hidden/x", "venv/pyvenv.cfg", "runs/big", "results/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "out").symlink_to("../outside")
    pinned = make.ensure(home(folder), folder, [folder / "runs", folder / "results"])
    tree = pinned.workdir(home(folder))
    assert sorted(str(path.relative_to(tree)) for path in tree.rglob("*")) == ["lib", "lib/a.py", "out", "train.py"]
    assert os.readlink(tree / "out") == str(tmp_path / "outside")
    assert make.remove(home(folder)) and not tree.exists()


@pytest.mark.parametrize("bad", ["[]", "{}", "nonsense", '{"schema_version": 1, "kind": "git", "id": "../../etc"}'])
def test_a_foreign_snapshot_file_is_refused(project: Path, bad: str) -> None:
    pin(project)
    file = home(project) / "snapshot.json"
    if bad.startswith('{"schema'):
        bad = json.dumps({**json.loads(file.read_text()), "id": "../../etc"})
    file.write_text(bad)
    with pytest.raises(RunDirectoryError):
        read(home(project))
    assert make.remove(home(project))


def test_a_repository_that_git_refuses_is_one_sentence(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise git.GitError("git add: no space left")

    monkeypatch.setattr(git, "capture", refuse)
    with pytest.raises(SnapshotError, match="no space left"):
        pin(project)


def test_equal_files_are_equal_code_whatever_is_committed(project: Path) -> None:
    def code() -> str:
        repository = git.Repository.of(project)
        assert repository is not None
        return git_fingerprint(repository).code

    first = code()
    (project / "config" / "more.yaml").write_text("a collection is no code\n")
    (project / "notes.txt").write_text("untracked, and no code\n")
    assert code() == first
    (project / "train.py").write_text("new\n")
    (project / "extra.py").write_text("new\n")
    second = code()
    assert second != first
    run_git(project, "add", ".")
    run_git(project, "rm", "-q", "--cached", "notes.txt")
    run_git(project, "commit", "-qm", "second")
    assert code() == second
    loose = run_git(project, "count-objects")
    (project / "train.py").write_text("third\n")
    code()
    assert run_git(project, "count-objects") == loose


def test_without_a_repository_the_named_files_count(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1")
    argv = ["python", "train.py", "--x", "\0bad", str(tmp_path / "run" / "config.yaml")]
    first = fingerprint(tmp_path, argv, tmp_path / "run")
    (tmp_path / "train.py").write_text("2")
    second = fingerprint(tmp_path, argv, tmp_path / "run")
    assert first and second and first != second
    assert fingerprint(tmp_path, ["true"], tmp_path / "run") is None


def test_a_change_is_one_event(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert [note(paths, n, Fingerprint(code, "c" * 40)) for n, code in enumerate("aabb", 1)] == [
        False,
        False,
        True,
        False,
    ]
    (event,) = read_events(paths)
    assert event["event"] == "code_changed" and event["attempt"] == 3 and "in attempt 2" in event["before"]


@pytest.mark.parametrize("value", ["false", "no", "off", "0", 0, False, " No ", ""])
def test_false_in_all_its_spellings(value: object) -> None:
    assert not parse_flag(value)

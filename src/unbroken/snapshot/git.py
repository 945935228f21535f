"""The few things that are asked of git. Neither the user's index nor a branch is ever touched, no hook is run."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unbroken.errors import UnbrokenError

LARGEST_FILE = 10 << 20
"""Bytes; a larger file that git does not track is taken for data and left out of a snapshot."""
CODE_SUFFIXES = frozenset(
    [
        ".py",
        ".pyx",
        ".pyi",
        ".sh",
        ".bash",
        ".c",
        ".cc",
        ".cpp",
        ".cxx",
        ".h",
        ".hpp",
        ".cu",
        ".cuh",
        ".jl",
        ".r",
        ".rs",
        ".go",
        ".toml",
        ".cfg",
        ".ini",
    ]
)
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "unbroken"), ("EMAIL", "unbroken@localhost"))
}


class GitError(UnbrokenError):
    """git refused, or is not there."""


@dataclass(frozen=True)
class Repository:
    """Where a folder lies in its repository."""

    top: Path
    prefix: str
    """From the top to the folder, ``a/b/`` or empty."""
    index: Path
    objects: Path
    commit: str

    @classmethod
    def of(cls, folder: Path, timeout: float | None = 60.0) -> "Repository | None":
        """The repository of a folder; None where there is no git, no repository, or no commit yet.

        Raises:
            GitError: git refuses, e.g. since the repository belongs to somebody else.
        """
        if shutil.which("git") is None:
            return None
        wanted = ["--show-toplevel", "--show-prefix", "--git-path", "index", "--git-path", "objects", "HEAD"]
        try:
            words = run(folder, ["rev-parse", *wanted], timeout=timeout).split("\n")
        except GitError as error:
            if "dubious ownership" in str(error):
                raise
            return None
        if len(words) != 6:  # a bare repository, or a newline in the path
            return None
        return cls(Path(words[0]), words[1], folder / words[2], folder / words[3], words[4])


@dataclass(frozen=True)
class Captured:
    """The files on disk as one git tree."""

    tree: str
    changed: tuple[str, ...]
    """Paths that differ from the commit."""
    left_out: tuple[str, ...]


def run(
    folder: Path,
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
) -> str:
    """One git command in ``folder``; its output.

    Raises:
        GitError: with git's own words.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    fixed = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    options = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgsign=false"]
    try:
        done = subprocess.run(
            ["git", *options, *arguments],
            cwd=folder,
            env={**kept, **fixed, **(env or {})},
            input=os.fsencode(stdin) if stdin is not None else None,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]} in {folder} took more than {timeout:g} s") from None
    except OSError as error:
        raise GitError(f"git cannot be run in {folder}: {error.strerror or error}") from None
    if done.returncode != 0:
        said = " ".join(os.fsdecode(done.stderr).split()) or f"exit code {done.returncode}"
        raise GitError(f"git {arguments[0]} in {folder}: {said}")
    return os.fsdecode(done.stdout)


@contextmanager
def _scratch_index(repository: Repository, keep_objects: bool) -> Iterator[dict[str, str]]:
    """Environment with an index of our own; with ``keep_objects`` false, what is added leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="unbroken-git-") as folder:
        env = {"GIT_INDEX_FILE": f"{folder}/index"}
        if repository.index.is_file():
            shutil.copy2(repository.index, env["GIT_INDEX_FILE"])
        else:
            run(repository.top, ["read-tree", repository.commit], env=env)
        if not keep_objects:
            os.mkdir(f"{folder}/objects")
            env["GIT_OBJECT_DIRECTORY"] = f"{folder}/objects"
            quoted = os.path.abspath(repository.objects).replace("\\", "\\\\").replace('"', '\\"')
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'
        yield env


def capture(
    repository: Repository,
    *,
    without: Sequence[str] = (),
    only_code: bool = False,
    keep_objects: bool = True,
    timeout: float | None = None,
) -> Captured:
    """The working tree, local changes and untracked (not ignored) files included, as a tree.

    Args:
        without: folders, relative to the top, that are no part of it.
        only_code: of untracked files, only those that look like code.

    Raises:
        GitError: git fails, or takes longer than ``timeout`` seconds for one step.
    """
    top = repository.top
    with _scratch_index(repository, keep_objects) as env:

        def git(*arguments: str, stdin: str | None = None) -> str:
            return run(top, ["--literal-pathspecs", *arguments], env=env, stdin=stdin, timeout=timeout)

        git("add", "--update", "--", ".")
        added: list[str] = []
        left_out: list[str] = []
        for name in git("ls-files", "-z", "--others", "--exclude-standard").split("\0"):
            if (
                not name
                or "/.code/" in f"/{name}"
                or any(name.startswith(f"{folder.rstrip('/')}/") for folder in without)
            ):
                continue
            if only_code and os.path.splitext(name)[1].lower() not in CODE_SUFFIXES:
                continue
            (added if _fits(top / name) else left_out).append(name)
        if added:
            git("add", "--pathspec-from-file=-", "--pathspec-file-nul", stdin="\0".join(added))
        if without:
            git("rm", "-r", "--cached", "--quiet", "--ignore-unmatch", "--", *without)
        tree = git("write-tree").strip()
        changed = [name for name in git("diff-index", "--cached", "-z", "--name-only", "HEAD").split("\0") if name]
    changed = [name for name in changed if not any(name.startswith(f"{folder.rstrip('/')}/") for folder in without)]
    return Captured(tree, tuple(changed), tuple(left_out))


def _fits(path: Path) -> bool:
    """A file, or a link, that belongs into a snapshot: not a repository of its own, not large."""
    try:
        return path.is_symlink() or (path.is_file() and path.stat().st_size <= LARGEST_FILE)
    except OSError:
        return False


def has_submodules(repository: Repository) -> bool:
    """Whether the commit holds repositories of others, which a worktree would leave empty."""
    return (repository.top / ".gitmodules").is_file()


def commit_of(repository: Repository, captured: Captured, message: str) -> str:
    """The commit that holds what was captured: HEAD itself, or one of its own that no branch names."""
    if captured.tree == run(repository.top, ["rev-parse", f"{repository.commit}^{{tree}}"]).strip():
        return repository.commit
    arguments = ["commit-tree", captured.tree, "-p", repository.commit, "-m", message]
    return run(repository.top, arguments, env=_AUTHOR).strip()


def add_worktree(top: Path, target: Path, commit: str, ref: str) -> None:
    """Check ``commit`` out at ``target``, detached; ``ref`` keeps it from git's garbage collection."""
    run(top, ["update-ref", ref, commit])
    run(top, ["worktree", "prune"])
    run(top, ["worktree", "add", "--quiet", "--force", "--detach", str(target.absolute()), commit])


def remove_worktree(top: Path, target: Path, ref: str) -> None:
    """Take a worktree and its ref away again, whatever is left of them."""
    for arguments in (
        ["worktree", "remove", "--force", "--force", str(target.absolute())],
        ["update-ref", "-d", ref],
    ):
        try:
            run(top, arguments)
        except GitError:
            continue  # the repository is gone, or the worktree was taken away by hand
    shutil.rmtree(target, ignore_errors=True)
    try:
        run(top, ["worktree", "prune"])
    except GitError:
        return

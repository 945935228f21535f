"""Which run a person means: a directory, ``slug/setting/seed``, a part of a label, or a Slurm job id."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbroken.cli import project
from unbroken.collection._sentence import nearest
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import CollectionError, UnbrokenError

RUN_HELP = (
    "A run: its directory, slug/setting/seed, slug/part-of-label, the start of its setting id and a seed; or a job id."
)
_JOB = re.compile(r"\d+(_\d+)?")
_SEED = re.compile(r"(?:seed[_=])?(\d+)")


class RunNotFound(UnbrokenError):
    """No run, or more than one, fits what was typed."""

    exit_code = 2


@dataclass(frozen=True)
class RunRef:
    """One run, in its collection or only on disk."""

    slug: str
    setting: str
    seed: int
    label: str
    paths: RunPaths
    expected: bool = True
    """False for a directory that the collection does not name (any more)."""

    @property
    def name(self) -> str:
        """What can be typed to mean this run."""
        return f"{self.slug}/{self.setting}/{self.seed}"

    def __str__(self) -> str:
        return f"{self.name} ({self.label})" if self.label else self.name


@dataclass(frozen=True)
class JobRef:
    """A Slurm job that belongs to no run known here."""

    job_id: str


def find(text: str) -> RunRef | JobRef:
    """The run, or the bare job, that ``text`` means.

    Raises:
        RunNotFound: nothing fits, or several runs do; the message lists them.
    """
    directory = _directory(text)
    if directory is not None:
        return directory
    if _JOB.fullmatch(text):
        return _of_job(text)
    return _of_words(text)


def find_run(text: str) -> RunRef:
    """As ``find``, for commands that need a run directory."""
    found = find(text)
    if isinstance(found, JobRef):
        raise RunNotFound(f"job {found.job_id} belongs to no run of this project; name the run instead")
    return found


def runs_of(text: str) -> list[RunRef]:
    """The runs of the collection with this slug; empty where ``text`` is none.

    Raises:
        CollectionError: it is one that is not listed, and nothing of it was started.
    """
    if Path(text).is_dir():
        return []
    found = [run for run in all_runs() if run.slug == text and run.expected]
    if not found and project.is_file(text):
        raise project.absent(text, ())
    return found


def _directory(text: str) -> RunRef | None:
    path = Path(text)
    if path.is_file():
        path = path.parent
    if not path.is_dir():
        return None
    root = next((at for at in (path.resolve(), *path.resolve().parents) if at.name.startswith("seed_")), None)
    if root is None or not root.name[5:].isdigit():
        return None
    slug, setting, seed = root.parent.parent.name, root.parent.name, int(root.name[5:])
    label, expected = _label(slug, setting, seed)
    return RunRef(slug, setting, seed, label, RunPaths(root), expected)


def _label(slug: str, setting: str, seed: int) -> tuple[str, bool]:
    """The label from the collection; empty, and False, where it cannot be read or does not name the run."""
    try:
        known = project.known_collections()["collections"].get(slug)
    except CollectionError:
        return "", False
    labels = dict(known["settings"]) if known else {}
    return labels.get(setting, ""), setting in labels and seed in known["seeds"]


def all_runs() -> Iterator[RunRef]:
    """Every run of every collection, then those directories that no collection names."""
    known = project.known_collections()
    runs: str = known["runs"]
    for slug in sorted({*known["collections"], *project.folders(runs)}):
        collection: dict[str, Any] = known["collections"].get(slug, {"settings": [], "seeds": []})
        on_disk = set(project.read_statuses(runs, slug))
        for setting, label in collection["settings"]:
            for seed in collection["seeds"]:
                on_disk.discard((setting, seed))
                yield RunRef(slug, setting, seed, label, RunPaths.of(runs, slug, setting, seed))
        for setting, seed in sorted(on_disk):
            yield RunRef(slug, setting, seed, "", RunPaths.of(runs, slug, setting, seed), False)


def _of_job(job_id: str) -> RunRef | JobRef:
    """By run_status.json, then by the queue's comments, then by the events of all runs."""
    try:
        known = project.known_collections()
    except CollectionError:
        return JobRef(job_id)
    runs = known["runs"]
    labels = {slug: dict(collection["settings"]) for slug, collection in known["collections"].items()}
    for slug in project.folders(runs):
        for (setting, seed), status in project.read_statuses(runs, slug).items():
            if status.get("slurm_job_id") == job_id:
                label = labels.get(slug, {}).get(setting, "")
                return RunRef(slug, setting, seed, label, RunPaths.of(runs, slug, setting, seed))
    from unbroken.cli.queue import Queue, known_queue, run_of

    job = Queue(known_queue()).by_id.get(job_id)
    named = run_of(job["comment"]) if job and os.path.realpath(job["workdir"]) == os.path.realpath(".") else None
    if named:
        slug, setting, seed = named
        return RunRef(slug, setting, seed, labels.get(slug, {}).get(setting, ""), RunPaths.of(runs, *named))
    return JobRef(job_id)


def _of_words(text: str) -> RunRef:
    words = [word for word in text.strip("/").split("/") if word]
    runs = list(all_runs())
    if len(words) > 1 and words[0] in {run.slug for run in runs}:
        runs = [run for run in runs if run.slug == words[0]]
        words = words[1:]
    fitting = runs
    seed = _SEED.fullmatch(words[-1]) if len(words) > 1 else None
    if seed:
        fitting = [run for run in fitting if run.seed == int(seed[1])]
        words = words[:-1]
    wanted = "/".join(words)
    exact = [run for run in fitting if run.setting == wanted or run.label == wanted]
    fitting = exact or [
        run for run in fitting if run.setting.startswith(wanted) or wanted in f"{run.label} seed={run.seed}"
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise RunNotFound(f"{text!r} fits {len(fitting)} runs; {_list(fitting)}")
    if own := [run for run in runs if run.slug == text]:
        raise RunNotFound(f"{text!r} is a collection of {len(own)} runs; {_list(own)}")
    raise RunNotFound(_nothing(text))


def _list(runs: list[RunRef]) -> str:
    shown = "\n".join(f"  {run}" for run in runs[:10])
    more = f"\n  and {len(runs) - 10} more" if len(runs) > 10 else ""
    return f"name one of them:\n{shown}{more}"


def _nothing(text: str) -> str:
    """No run fits; perhaps because its collection is not known, or its name has a slip."""
    slug = text.strip("/").split("/")[0]
    known = project.known_collections()["collections"]
    if slug not in known and project.is_file(slug):
        return str(project.absent(slug, known))
    near = nearest(slug, known) if slug not in known else ""
    meant = f", {near}?" if near else ":"
    return f"no run fits {text!r}{meant} `unbroken status` lists them; {RUN_HELP[0].lower()}{RUN_HELP[1:]}"

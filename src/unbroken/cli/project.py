"""The project that a command looks at: its config, its collections as plain data, its run directories."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unbroken.cli import index
from unbroken.cli.place import CONFIG, guessed_runs, load_project
from unbroken.errors import CollectionError

_ONE_READ = 16_384
"""More than a run_status.json has, little enough that its buffer costs nothing."""

Statuses = dict[tuple[str, int], dict[str, Any]]
"""run_status.json by (setting, seed)."""


def known_collections() -> dict[str, Any]:
    """``{"runs": <runs dir>, "collections": {slug: {"settings": [[id, label], ...], "seeds": [...]}}}``.

    Raises:
        CollectionError: config.yaml or a collection cannot be used.
    """
    return index.remembered(f"{guessed_runs()}/{index.NAME}") or _check_collections()


def _check_collections() -> dict[str, Any]:
    """Read, check and expand every collection that is listed or has run directories; remember them beside the runs."""
    from unbroken.collection.yaml_io import load_yaml

    config = load_project()
    collections, files = {}, [Path(CONFIG)]
    unlisted = [slug for slug in folders(str(config.runs_dir)) if config.collection_path(slug).is_file()]
    for slug in dict.fromkeys([*config.collections, *unlisted]):
        collection = config.load(slug)
        settings = [[setting.id, setting.label] for setting in collection.settings]
        collections[slug] = {"settings": settings, "seeds": list(collection.seeds)}
        files.append(collection.path)
        if table := load_yaml(collection.path).get("table"):
            files.append(collection.path.parent / table)
    known = {"runs": str(config.runs_dir), "collections": collections}
    if config.runs_dir.is_dir():
        index.remember(config.runs_dir / index.NAME, files, known)
    return known


def folders(runs: str) -> list[str]:
    """The collections that have run directories."""
    try:
        return sorted(entry.name for entry in os.scandir(runs) if entry.is_dir())
    except OSError:
        return []


def chosen(known: dict[str, Any], slug: str | None) -> dict[str, Any]:
    """The collections to show: one, or all."""
    collections: dict[str, Any] = known["collections"]
    if slug is None:
        return collections
    if slug not in collections:  # trained by name since the collections were last looked at
        collections = _check_collections()["collections"]
    if slug not in collections:
        raise absent(slug, collections)
    return {slug: collections[slug]}


def absent(slug: str, there: Iterable[str]) -> CollectionError:
    """Why a collection is not among those ``there``: its file is not listed, or there is none."""
    from unbroken.cli.start import commands
    from unbroken.collection._sentence import nearest

    config = load_project()
    if is_file(slug):
        return CollectionError(
            f"collection {slug!r} is not listed in {CONFIG}, and nothing of it was started in {config.runs_dir}/ yet; "
            f"start it with: {commands(slug)}"
        )
    names = sorted(there)
    near = nearest(slug, names)
    fix = f"{near}?" if near else f"there are: {', '.join(names) or 'none'}"
    return CollectionError(f"there is no collection {slug!r} in {CONFIG}; {fix}")


def is_file(slug: str) -> bool:
    """Whether ``slug`` is one, and has a file."""
    from unbroken.collection.targets import is_slug

    return is_slug(slug) and load_project().collection_path(slug).is_file()


def read_statuses(runs: Path | str, slug: str) -> Statuses:
    """run_status.json of every run directory of a collection, by (setting, seed).

    A directory without the file gives ``{}``; one with an unreadable file gives ``{"unreadable": <why>}``.
    Plain system calls relative to an open directory: faster than pathlib and open() by half.
    """
    found: Statuses = {}
    try:
        settings = os.scandir(f"{runs}/{slug}")
    except OSError:
        return found
    with settings:
        for entry in settings:
            try:
                folder = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                _read_setting(folder, entry.name, found)
            finally:
                os.close(folder)
    return found


def _read_setting(folder: int, setting: str, found: Statuses) -> None:
    open_, read, close = os.open, os.read, os.close
    for name in os.listdir(folder):
        if not name.startswith("seed_") or not name[5:].isdigit():
            continue
        try:
            file = open_(name + "/run_status.json", os.O_RDONLY, dir_fd=folder)
        except OSError as error:
            found[setting, int(name[5:])] = {} if isinstance(error, FileNotFoundError) else {"unreadable": str(error)}
            continue
        try:
            data = read(file, _ONE_READ)
            while len(data) % _ONE_READ == 0 and (more := read(file, _ONE_READ)):
                data += more
        except OSError as error:
            found[setting, int(name[5:])] = {"unreadable": str(error)}
            continue
        finally:
            close(file)
        try:
            value = _parse(data.decode())
        except ValueError as error:
            value = {"unreadable": f"run_status.json is not JSON: {error}"}
        found[setting, int(name[5:])] = (
            value if isinstance(value, dict) else {"unreadable": "run_status.json is no object"}
        )


_scan: Any = vars(json.JSONDecoder())["scan_once"]


def _parse(text: str) -> Any:
    """As json.loads, without its checks of every argument: a tenth of the time of `unbroken status`."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return json.loads(text)
    return value if text[end:] in {"", "\n"} else json.loads(text)

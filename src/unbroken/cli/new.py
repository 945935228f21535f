"""`unbroken new`: write a collection from flags, or from answers."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from unbroken.cli.listing import add_to_config
from unbroken.cli.place import CONFIG, load_project
from unbroken.collection._sentence import complain
from unbroken.collection.load import check_slug, load_collection
from unbroken.collection.model import Collection
from unbroken.collection.yaml_io import Document, dump_yaml, scalar
from unbroken.errors import CollectionError, UnbrokenError

SCHEMA = Path("workflow/schemas/collection.schema.json")


class NotWritten(UnbrokenError):
    """The collection cannot be written as it was asked for."""

    exit_code = 2


def command(
    slug: Annotated[str, typer.Argument(help="The collection's name: a-z, 0-9, _ and -.")],
    program: Annotated[
        str | None, typer.Option("--command", "-c", help="Your program; {config}, {run_dir}, {seed} are filled in.")
    ] = None,
    trainer: Annotated[str | None, typer.Option(help="A built-in trainer instead of --command.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="KEY=VALUE that all settings share; again and again.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", "-g", help="KEY=V1,V2 or KEY=[V1, V2]; every combination is a setting."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="A count, or a list: 7,11.")] = None,
    description: Annotated[str | None, typer.Option(help="For readers.")] = None,
    runtime: Annotated[str | None, typer.Option(help="Time limit of a job: minutes, or 12h.")] = None,
    mem_mb: Annotated[int | None, typer.Option(help="Memory of a job, MB.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs of a job.")] = None,
    pin_code: Annotated[
        bool, typer.Option("--pin-code", help="Every attempt runs the code of the first call.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Also list it in config.yaml: a plain `snakemake` runs it, status shows it.")
    ] = False,
) -> None:
    """Write config/collections/SLUG.yaml. Asks for what is missing, if someone is there. Never overwrites."""
    if "/" in slug or "\0" in slug:
        raise NotWritten(f"{slug!r} is no slug: it names a file in {_folder()}, write only a-z, 0-9, _ and -")
    path = _folder() / f"{slug}.yaml"
    check_slug(path)
    if os.path.lexists(path):
        raise NotWritten(f"{path} is there already and stays as it is; take another slug, or edit it")
    asking = sys.stdin.isatty()
    if program is None and trainer is None:
        program = _ask("Command (with {config}, {run_dir}, {seed} where it wants them)", None, asking, "--command")
    if seeds is None:
        seeds = _ask("Seeds (a count, or a list: 7,11)", "3", asking, "--seeds")
    if not grid and asking:
        given = typer.prompt("Grid (KEY=V1,V2; empty for none, several separated by ;)", default="", show_default=False)
        grid = [part for part in given.split(";") if part.strip()]
    resources = {"runtime": _value("--runtime", runtime) if runtime else None, "mem_mb": mem_mb, "gpus": gpus}
    keys: dict[str, Any] = {
        "description": description,
        "trainer": trainer,
        "command": program,
        "config": dict(_pair("--set", text) for text in settings or ()),
        "grid": {key: value if isinstance(value, list) else [value] for key, value in _axes(grid or ())},
        "seeds": _value("--seeds", seeds),
        "resources": {key: value for key, value in resources.items() if value is not None},
        "operational": {"job_code_snapshot_enabled": True} if pin_code else {},
    }
    collection = write(path, {key: value for key, value in keys.items() if value not in (None, {})})
    count = len(collection)
    print(f"wrote {path}: {count} run{'s' * (count != 1)}")
    if listed and not add_to_config(Path(CONFIG), slug):
        print(f"  {CONFIG} is not written as expected: add {slug} to its `collections` yourself")
    print(
        f"  unbroken check {slug}      what it costs\n  snakemake -n {slug}        what would run\n  snakemake {slug}"
    )


def write(path: Path, keys: dict[str, Any]) -> Collection:
    """Check a collection, then write it; a file that is there already stays.

    Raises:
        CollectionError: it is not valid, and nothing was written. NotWritten: the file is there, or cannot be made.
    """
    text = _hint(path) + "".join(dump_yaml({key: value}) for key, value in keys.items())
    with tempfile.TemporaryDirectory(prefix="unbroken-new-") as folder:
        draft = Path(folder) / path.name
        draft.write_text(text, encoding="utf-8")
        try:
            collection = load_collection(draft)
        except CollectionError as error:
            raise CollectionError(str(error).replace(str(draft), path.name)) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise NotWritten(f"{path} is there already and stays as it is; take another slug, or edit it") from None
    except OSError as error:
        raise NotWritten(f"{path} cannot be written: {error.strerror}") from None
    return collection


def _folder() -> Path:
    """Where collections live; the default where config.yaml cannot tell."""
    try:
        return load_project().collections_dir
    except CollectionError:
        return Path("config/collections")


def _hint(path: Path) -> str:
    """The line by which an editor finds the schema; none where the project has none."""
    if not SCHEMA.is_file():
        return ""
    return f"# yaml-language-server: $schema={os.path.relpath(SCHEMA, path.parent)}\n"


def _ask(question: str, default: str | None, asking: bool, flag: str) -> str:
    if not asking:
        if default is not None:
            return default
        raise NotWritten(f"{flag} is missing, and there is nobody to ask")
    return str(typer.prompt(question, default=default))


def _pair(flag: str, text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise NotWritten(f"{flag} {text!r}: write KEY=VALUE")
    return key.strip(), _value(f"{flag} {key.strip()}", value, lists=False)


def _axes(grid: list[str] | tuple[()]) -> list[tuple[str, Any]]:
    axes = []
    for text in grid:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise NotWritten(f"--grid {text!r}: write KEY=V1,V2")
        axes.append((key.strip(), _value(f"--grid {key.strip()}", value)))
    return axes


def _value(flag: str, text: str, lists: bool = True) -> Any:
    """A YAML value: ``[a, b]`` and ``{a: 1}`` as YAML reads them, ``a,b`` as a list where one is expected."""
    text = text.strip()
    try:
        if text[:1] in ("[", "{"):
            return Document(flag, f"value: {text}").data["value"]
        if lists and "," in text:
            return [scalar(part.strip()) for part in text.split(",")]
        return scalar(text)
    except ValueError as error:
        raise complain(flag, None, str(error)) from None

"""`unbroken adopt`: take over a run directory from before there were identities."""

import json
from typing import Annotated

import typer

from unbroken.cli.drill import run_of
from unbroken.cli.locate import RUN_HELP
from unbroken.cli.options import RunsDir
from unbroken.cli.place import load_project


def command(
    run: Annotated[str, typer.Argument(help=RUN_HELP)],
    check: Annotated[bool, typer.Option("--check", help="Show what would be written, write nothing.")] = False,
    runs_dir: RunsDir = None,
) -> None:
    """Adopt a legacy run: checkpoints/last.pt with a config_snapshot, but no config_identity.json.

    Its config must be the one that the collection asks for: else it is refused with every key that differs (exit code
    44), and nothing is written. A trainer does the same by itself when it starts; this is for looking before.
    """
    from unbroken.training.adoption import adopt

    which = run_of(run)
    paths = which.paths(load_project().runs_dir)
    found = adopt(paths.root, which.run_config(), which.seed, check)
    if found is None:
        typer.echo(f"{paths.root} has its {paths.identity.name} already: nothing to adopt.")
        return
    would = "would write" if check else "wrote"
    where = f"{found.checkpoint.name} at step {found.global_step}"
    typer.echo(f"{paths.root}: the config_snapshot in {where} is the config of {which!r}.")
    typer.echo(f"train_order_mode: {found.order_mode}")
    typer.echo(f"{would} {paths.identity.name}:")
    typer.echo(json.dumps(found.identity, indent=2, ensure_ascii=False))
    names = [paths.config.name] if found.writes_config else []
    typer.echo(f"{would} {', '.join([*names, paths.status.name, paths.events.name])} (legacy_adopted)")
    for name, why in found.passed_over:
        typer.echo(f"{'would set' if check else 'set'} {name} aside: it {why}")

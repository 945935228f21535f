"""From the command line to the trained consensus."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import unbroken
from unbroken.collection.identity import config_hash, setting_id
from unbroken.data.manifest import NAME, make_manifest
from unbroken.errors import CollectionError
from unbroken.trainers.consensus.data import read_rivers
from unbroken.trainers.consensus.task import ConsensusTask, training_tensors
from unbroken.training.command_line import parser, session_arguments
from unbroken.training.loop import Settings, train


def find_manifest(config: Mapping[str, Any], given: str | None, run_dir: Path) -> Path:
    """The manifest: as given, as ``data.manifest`` says, where the workflow puts it, or made in the run directory.

    Raises:
        CollectionError: there is none and it cannot be made.
    """
    data = config.get("data")
    named = given or (data.get("manifest") if isinstance(data, Mapping) else None) or config.get("manifest")
    if named:
        return Path(str(named))
    if not isinstance(data, Mapping):
        raise CollectionError("the config has no `data:` and no --manifest is given; give one of them")
    collection = config.get("collection")
    if isinstance(collection, str):
        prepared = Path("data") / collection / setting_id(config_hash(data)) / NAME
        if prepared.exists():
            return prepared
    root = os.environ.get("UNBROKEN_CAMELS_ROOT")
    return make_manifest(data, run_dir / "data", Path(root) if root else None)


def main(arguments: list[str] | None = None) -> None:
    """Train one run. Raises SystemExit as ``unbroken.run`` does."""
    options = parser("consensus", __doc__ or "")
    options.add_argument("--manifest", help="manifest_train.csv; default: as `data:` in the config says")
    given = options.parse_args(arguments)
    with unbroken.run(trainer="consensus", **session_arguments(given)) as session:
        config = session.config
        settings = Settings.of({"batch_size": 64, "epochs": 10, **config})
        manifest = session.world.decide(lambda: find_manifest(config, given.manifest, session.paths.root))
        rivers = read_rivers(manifest, session.check)
        plan = settings.plan(len(training_tensors(rivers)[1]), session.world.size)
        task = ConsensusTask(config, session.seed, rivers, session.paths, plan.total_steps, session.world.first)
        train(task, session, settings)

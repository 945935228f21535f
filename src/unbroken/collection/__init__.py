"""Collections: load a file, expand it to runs, and say what makes each run that run.

Names are imported on first use: the launcher, which needs only paths and hashes, starts without YAML and schemas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbroken.collection.command import fill_command
    from unbroken.collection.load import load_collection
    from unbroken.collection.model import Collection, Run, Setting
    from unbroken.collection.operational import DEFAULTS, OPERATIONAL_KEYS
    from unbroken.collection.project import ProjectConfig, load_config
    from unbroken.collection.run_dir import RunPaths
    from unbroken.collection.yaml_io import dump_yaml, load_yaml

__all__ = [
    "DEFAULTS",
    "OPERATIONAL_KEYS",
    "Collection",
    "ProjectConfig",
    "Run",
    "RunPaths",
    "Setting",
    "dump_yaml",
    "fill_command",
    "load_collection",
    "load_config",
    "load_yaml",
]

_HOME = {
    "DEFAULTS": "operational",
    "OPERATIONAL_KEYS": "operational",
    "Collection": "model",
    "ProjectConfig": "project",
    "Run": "model",
    "RunPaths": "run_dir",
    "Setting": "model",
    "dump_yaml": "yaml_io",
    "fill_command": "command",
    "load_collection": "load",
    "load_config": "project",
    "load_yaml": "yaml_io",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

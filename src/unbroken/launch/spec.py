"""The launch spec: what the workflow tells the launcher about one run, as JSON."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbroken import exit_codes
from unbroken.collection.run_dir import RunPaths
from unbroken.errors import UnbrokenError
from unbroken.launch.policy import Limits

_TYPES = {"collection": str, "seed": int, "label": str, "identity": dict, "config_yaml": str, "command": list}


class SpecError(UnbrokenError):
    """The spec or the command line of the launcher cannot be used."""

    exit_code = exit_codes.USAGE


@dataclass(frozen=True)
class Spec:
    """One run, as ``Run.launch_spec()`` makes it."""

    collection: str
    seed: int
    label: str
    identity: dict[str, Any]
    config_yaml: str
    command: list[str]
    processes: int
    operational: dict[str, Any]
    resources: dict[str, Any]

    @classmethod
    def read(cls, argument: str) -> "Spec":
        """From inline JSON, or ``@file``.

        Raises:
            SpecError: says what is wrong with it.
        """
        where = "--spec"
        if argument.startswith("@"):
            where = argument[1:]
            try:
                argument = Path(where).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise SpecError(f"the launch spec {where} cannot be read: {error}") from error
        try:
            value = json.loads(argument)
        except ValueError as error:
            raise SpecError(f"{where} is not JSON ({error}); give the JSON itself or @file") from error
        if not isinstance(value, dict):
            raise SpecError(f"{where} does not hold a JSON object")
        if value.get("schema_version") != 1:
            raise SpecError(f"{where} has schema_version {value.get('schema_version')!r}; this launcher reads 1")
        for key, kind in _TYPES.items():
            if not isinstance(value.get(key), kind):
                raise SpecError(f"{where}: {key} should be {kind.__name__}, got {value.get(key)!r}")
        if not value["command"] or not all(isinstance(word, str) for word in value["command"]):
            raise SpecError(f"{where}: command should be a list of words, got {value['command']!r}")
        return cls(
            **{key: value[key] for key in _TYPES},
            processes=int(value.get("processes") or 1),
            operational=value.get("operational") or {},
            resources=value.get("resources") or {},
        )

    @property
    def name(self) -> str:
        """For messages: collection, setting, seed."""
        label = f" [{self.label}]" if self.label else ""
        return f"{self.collection}{label} seed {self.seed}"

    @property
    def behind_agent(self) -> bool:
        """torchrun starts the processes."""
        return self.processes > 1 and self.command[0] == "{python}"

    @property
    def limits(self) -> Limits:
        given = self.operational
        known = Limits()
        return Limits(
            max_resubmit_attempts=given.get("max_resubmit_attempts", known.max_resubmit_attempts),
            no_progress_limit=given.get("no_progress_limit", known.no_progress_limit),
            early_preemption_limit=given.get("early_preemption_limit", known.early_preemption_limit),
            graceful=bool(given.get("enable_graceful_shutdown", True)),
            requeue=bool(given.get("requeue", True)),
            memory_cap_mb=given.get("memory_cap_mb"),
        )

    def argv(self, paths: RunPaths) -> list[str]:
        """The trainer's argument list; placeholders filled in one pass, no shell."""
        from unbroken.collection.command import fill_command

        template = list(self.command)
        if self.behind_agent:
            agent = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.processes)]
            template = [template[0], *agent, *template[1:]]
        values = {
            "python": sys.executable,
            "config": str(paths.config),
            "run_dir": str(paths.root),
            "seed": str(self.seed),
        }
        try:
            return fill_command(template, values)
        except KeyError as error:
            raise SpecError(
                f"{self.name}: the command asks for {{{error.args[0]}}}; there are {{config}}, {{run_dir}}, {{seed}}"
            ) from None

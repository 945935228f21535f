"""Slurm is asked in a forked child while this process reads the run directories."""

import json
import os
from collections.abc import Callable
from typing import Any


class Ahead:
    """The JSON result of a function that a forked child works out; an exception there is raised here."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(writer)
            return
        try:
            os.close(self._reader)
            with open(writer, "w", encoding="utf-8") as file:
                json.dump(function(), file)
            os._exit(0)
        except BaseException:
            os._exit(1)

    def result(self) -> Any:
        """Wait for the child. Where it failed, the function runs again here, so that its own error is seen."""
        with open(self._reader, encoding="utf-8") as file:
            text = file.read()
        _, status = os.waitpid(self._pid, 0)
        return json.loads(text) if status == 0 else self._function()


_begun: dict[str, Ahead] = {}


def begin() -> None:
    """Ask squeue, where there is one."""
    if any(os.access(f"{folder}/squeue", os.X_OK) for folder in os.environ.get("PATH", "").split(os.pathsep)):
        _begun["queue"] = Ahead(known_queue)


def take(name: str, function: Callable[[], Any]) -> Any:
    """The result begun under ``name``, or of ``function`` now."""
    begun = _begun.pop(name, None)
    return begun.result() if begun else function()


def known_queue() -> Any:
    """``cli.queue.known_queue`` with its imports put off into the child."""
    from unbroken.cli import queue

    return queue.known_queue()

"""Starts a trainer many times and imports its framework once: each start is a fork, a process and an end of its own.

``python -m tests.integration.zygote MODULE`` reads one JSON object a line, {"env": {...}, "log": path}, and answers
each with the exit code of a process that was forked for it and has called ``MODULE.main()`` (negative: the signal).
"""

import gc
import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]


class Zygote:
    """The side of the test."""

    def __init__(self, module: str) -> None:
        argv = [sys.executable, "-m", "tests.integration.zygote", module]
        self._process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self, log: Path, **env: str) -> int:
        """One start, waited for; its exit code."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps({"env": env, "log": str(log)}), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def serve(module: Any) -> None:
    """Fork and wait, for each line."""
    gc.freeze()  # what is imported is not looked through again by each child
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            log = os.open(request["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.environ.update(request["env"])
            _end(module.main)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _end(main: Any) -> NoReturn:
    """Call it and end the process with its code, without the second that taking torch apart costs."""
    code: Any = 1
    try:
        code = main() or 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(importlib.import_module(sys.argv[1]))

"""An experiment tracker (Weights & Biases) that goes on in the same run; never delays training. Off by default.

All of it happens in a thread of its own: importing wandb, opening the run (which waits for the network), every row.
Training hands over a row and goes on. Each step may fail for reasons that have nothing to do with the training: the
first failure is said, then tracking is off. Only the end of an attempt waits, and not for long.
"""

import contextlib
import csv
import itertools
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unbroken.collection.run_dir import RunPaths
from unbroken.run_dir.files import write_atomic
from unbroken.training.progress import say

TIMEOUT_S = 20.0
"""How long opening and finishing a run may take each (option ``timeout_s``)."""
PREEMPTED_S = 5.0
"""How long an attempt that was asked to stop waits for the tracker (``preempted_s``); the grace time is short."""

FLUSH_S = 1.0
"""How often wandb writes what it was told to its file: a kill takes as much from it. Its own value is 15 s."""


class Tracker:
    """A tracker that does nothing."""

    def log(self, row: Mapping[str, Any]) -> None:
        """One row of metrics.csv."""

    def finish(self, preempted: bool) -> None:
        """The attempt is over."""


OFF = Tracker()


class Wandb(Tracker):
    """Weights & Biases: the id in wandb_run_id.txt is reused, steps grow monotonically over resumes."""

    def __init__(self, options: Mapping[str, Any], paths: RunPaths, config: Mapping[str, Any]) -> None:
        self._options, self._paths, self._config = dict(options), paths, dict(config)
        self._timeout_s = float(self._options.pop("timeout_s", TIMEOUT_S))
        self._preempted_s = float(self._options.pop("preempted_s", PREEMPTED_S))
        there = paths.metrics
        self._past = there.stat().st_size if there.exists() else 0
        """Bytes of metrics.csv that earlier attempts have left."""
        self._rows: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._preempted = self._off = False
        self._thread = threading.Thread(target=self._live, name="tracking", daemon=True)
        self._thread.start()

    def log(self, row: Mapping[str, Any]) -> None:
        if not self._off:
            self._rows.put({key: value for key, value in row.items() if value is not None})

    def finish(self, preempted: bool) -> None:
        self._preempted = preempted
        self._rows.put(None)
        wait = self._preempted_s if preempted else 2 * self._timeout_s
        self._thread.join(wait)
        if self._thread.is_alive():
            self._off = True
            say(f"tracking has not come to its end in {wait:g} s: its last rows may be missing there")
            _end_service()

    def _live(self) -> None:
        """The thread: from the import to the end of the run."""
        try:
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # it waits for the network when Python ends
            import wandb

            run = self._open(wandb)
            known, done = _read(self._paths.wandb_step, 2), 0
            if known[0] == run.id and known[1].isdigit():
                done = int(known[1])
            for row in itertools.chain(_rows(self._paths.metrics, self._past), iter(self._rows.get, None)):
                if (step := int(row.pop("step"))) > done:  # else an earlier attempt has told it
                    write_atomic(self._paths.wandb_step, f"{run.id} {step}\n", durable=False)
                    run.log(row, step=step, commit=True)
            if self._preempted:
                with contextlib.suppress(Exception):
                    run.mark_preempting()
            run.finish(exit_code=1 if self._preempted else 0)
        except Exception as error:
            if not self._off:
                say(f"tracking is off from here on: {type(error).__name__}: {error}".splitlines()[0])
            self._off = True
            _end_service()

    def _open(self, wandb: Any) -> Any:
        """The run that the id file names, or a new one; its id is written once there is one."""
        known = _read(self._paths.wandb_id, 1)[0]
        try:
            run = self._init(wandb, known or None)
        except Exception as error:
            if not known or "deleted" not in str(error):
                raise
            say(f"the W&B run {known} was deleted there: a new one is begun")
            known, run = "", self._init(wandb, None)
        if run.id != known:
            write_atomic(self._paths.wandb_id, f"{run.id}\n", durable=False)
        return run

    def _init(self, wandb: Any, known: str | None) -> Any:
        wanted = {
            "init_timeout": self._timeout_s,
            "finish_timeout": self._timeout_s,
            "finish_timeout_raises": True,
            "console": "off",  # the attempt's log has what is printed: wandb is not to stand between
            "silent": True,
            "x_transaction_log_flush_interval": FLUSH_S,
        }
        fields = getattr(wandb.Settings, "model_fields", wanted)  # those that start with x_ may come and go
        limits = wandb.Settings(**{name: value for name, value in wanted.items() if name in fields})
        return wandb.init(
            id=known, resume="allow" if known else None, dir=str(self._paths.root), config=self._config,
            settings=limits, **{"project": "unbroken", "mode": "offline", **self._options},
        )  # fmt: skip


def _rows(path: Path, size: int) -> Iterator[dict[str, Any]]:
    """The rows in the first bytes of metrics.csv: what a killed attempt, or one without a network, has not told."""
    if size:
        with open(path, "rb") as file:
            lines = file.read(size).decode().splitlines()
        for row in csv.DictReader(lines):
            yield {name: int(text) if text.isdigit() else float(text) for name, text in row.items() if text}


def _read(path: Path, words: int) -> list[str]:
    """The first words of a file; "" for each that is not there."""
    try:
        found = path.read_text().split()
    except (OSError, ValueError):
        found = []
    return [*found, *[""] * words][:words]


def _end_service() -> None:
    """End the process that wandb has started for this one. It waits for the network, and Python's end for it."""
    setup: Any = sys.modules.get("wandb.sdk.wandb_setup")
    with contextlib.suppress(Exception):  # else a traceback at the end of the log: what it waits for is gone
        setup._singleton._connection._cleanup()
    with contextlib.suppress(OSError):
        for children in Path("/proc/self/task").glob("*/children"):
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "wandb-core":
                    os.kill(int(child), signal.SIGKILL)


def start(settings: Any, paths: RunPaths, config: Mapping[str, Any]) -> Tracker:
    """The tracker that ``tracking:`` asks for: ``{wandb: {project: ..., mode: offline}}``; empty = none."""
    wanted = settings.get("wandb") if isinstance(settings, Mapping) else None
    if not wanted:
        return OFF
    try:
        return Wandb(wanted if isinstance(wanted, Mapping) else {}, paths, config)
    except (TypeError, ValueError, RuntimeError) as error:  # a timeout_s that is none, no further thread
        say(f"tracking is off: {type(error).__name__}: {error}")
        return OFF

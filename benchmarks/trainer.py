"""A trainer of the benchmarks as a program: ``python -m benchmarks.trainer``, started as the launcher starts any.

Config keys: width, batch_size, epochs, records, pace_s (sleep in each step). Writes ``trace.txt``, a line for each step
begun: the step and the time.
"""

from unbroken.training import preemption

preemption.install()

import time  # noqa: E402
from collections.abc import Mapping  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402

from benchmarks.subject import Regression  # noqa: E402
from unbroken.training.command_line import leave, parser, session_arguments  # noqa: E402
from unbroken.training.loop import Settings, train  # noqa: E402
from unbroken.training.parts import Parts  # noqa: E402
from unbroken.training.session import Session  # noqa: E402


class Paced(Regression):
    """Each step takes ``pace_s`` longer."""

    pace_s = 0.0

    def loss(self, parts: Parts, batch: Any, step: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        time.sleep(self.pace_s)
        return super().loss(parts, batch, step)


def main() -> None:
    """One attempt."""
    given = parser("benchmark", __doc__ or "").parse_args()
    with Session.open(trainer="benchmark", **session_arguments(given)) as session:
        if session.finished:
            return
        config = session.config
        task = Paced(config["width"], config["records"], session.paths.root / "trace.txt", config.get("dropout", 0))
        task.pace_s = config.get("pace_s", 0.0)
        train(task, session, Settings.of(config))


if __name__ == "__main__":
    leave(main)

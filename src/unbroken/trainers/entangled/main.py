"""From the command line to the trained transformer."""

import unbroken
from unbroken.trainers.entangled.trainer import EntangledTask
from unbroken.training.command_line import parser, session_arguments
from unbroken.training.loop import train


def main(arguments: list[str] | None = None) -> None:
    """Train one run. Raises SystemExit as ``unbroken.run`` does."""
    given = parser("entangled", __doc__ or "").parse_args(arguments)
    with unbroken.run(trainer="entangled", **session_arguments(given)) as session:
        alone = session.world.size == 1  # one rank must not leave while the others go on to meet it
        task = EntangledTask(session.config, session.world.size, session.flag.check if alone else lambda: None)
        train(task, session, task.settings)

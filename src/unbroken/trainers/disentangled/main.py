"""From the command line to the trained VAE."""

import unbroken
from unbroken.trainers.disentangled.trainer import DisentangledTask
from unbroken.training.command_line import parser, session_arguments
from unbroken.training.loop import train


def main(arguments: list[str] | None = None) -> None:
    """Train one run. Raises SystemExit as ``unbroken.run`` does."""
    given = parser("disentangled", __doc__ or "").parse_args(arguments)
    with unbroken.run(trainer="disentangled", **session_arguments(given)) as session:
        task = DisentangledTask(session.config)
        train(task, session, task.settings)

"""From the command line to the trained VAE."""

from unbroken.trainers.disentangled.trainer import DisentangledTask
from unbroken.training.command_line import parser, session_arguments
from unbroken.training.loop import train
from unbroken.training.progress import say
from unbroken.training.session import Session


def main(arguments: list[str] | None = None) -> None:
    """Train one run. Raises UnbrokenError for what a person can mend, SystemExit(42) after a graceful stop."""
    given = parser("disentangled", __doc__ or "").parse_args(arguments)
    with Session.open(trainer="disentangled", **session_arguments(given)) as session:
        if session.finished:
            say(f"{session.paths.result} is there: nothing to train")
            return
        task = DisentangledTask(session.config)
        train(task, session, task.settings)

"""From the command line to the trained transformer."""

from unbroken.trainers.entangled.trainer import EntangledTask
from unbroken.training.command_line import parser, session_arguments
from unbroken.training.loop import train
from unbroken.training.progress import say
from unbroken.training.session import Session


def main(arguments: list[str] | None = None) -> None:
    """Train one run. Raises UnbrokenError for what a person can mend, SystemExit(42) after a graceful stop."""
    given = parser("entangled", __doc__ or "").parse_args(arguments)
    with Session.open(trainer="entangled", **session_arguments(given)) as session:
        if session.finished:
            say(f"{session.paths.result} is there: nothing to train")
            return
        alone = session.world.size == 1  # one rank must not leave while the others go on to meet it
        task = EntangledTask(session.config, session.world.size, session.flag.check if alone else lambda: None)
        train(task, session, task.settings)

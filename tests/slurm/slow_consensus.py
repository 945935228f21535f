"""The consensus trainer, slowed down and watched: before each commit it writes a line, after it it waits.

`steps.log` of the run directory gets `<pid> <step>` for each batch, `<pid> stopped` for an end with exit code
42. The seconds to wait stand in the file `pace` of the project's folder, so that a soak can be brought to its end.
"""

import os
import time
from pathlib import Path

from unbroken.training import preemption

PACE = "pace"
LOG = "steps.log"


def main() -> None:
    from unbroken.trainers.consensus import main as consensus
    from unbroken.training.session import Session

    run = Path(os.environ["UNBROKEN_RUN_DIR"])
    pace = run.parents[3] / PACE
    log = os.open(run / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    commit, opened = Session.commit, Session.open

    def note(what: object) -> None:
        os.write(log, f"{os.getpid()} {what}\n".encode())

    def commit_slowly(self: Session, *loss: object, **values: object) -> None:
        note(self.state.global_step)  # before the commit, which may save: a kill in between must not look like a gap
        commit(self, *loss, **values)
        end = time.monotonic() + (float(pace.read_text()) if pace.exists() else 0.0)
        while time.monotonic() < end and not preemption.FLAG.requested and pace.exists():
            time.sleep(0.02)

    Session.commit = commit_slowly
    # The launcher calls a program that a `command:` names a "command", in the identity too.
    Session.open = lambda *given, **options: opened(*given, **options | {"trainer": None})
    try:
        consensus.main()
    except SystemExit as end:
        if end.code == 42:
            note("stopped")
        raise


if __name__ == "__main__":
    preemption.install()
    from unbroken.training.command_line import run

    raise SystemExit(run(main))

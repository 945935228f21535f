"""The consensus trainer, slowed down and watched: after each batch it writes a line and waits.

`steps.log` of the run directory gets `<pid> <step>` for each committed batch, `<pid> stopped` for an end with exit code
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
    from unbroken.training import loop
    from unbroken.training.session import Session

    run = Path(os.environ["UNBROKEN_RUN_DIR"])
    pace = run.parents[3] / PACE
    log = os.open(run / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    original = loop._Step.run

    def note(what: object) -> None:
        os.write(log, f"{os.getpid()} {what}\n".encode())

    def run_slowly(self: object, batch: object) -> None:
        try:
            original(self, batch)
        except SystemExit:
            note(batch.step)
            raise
        note(batch.step)
        end = time.monotonic() + (float(pace.read_text()) if pace.exists() else 0.0)
        while time.monotonic() < end and not preemption.FLAG.requested and pace.exists():
            time.sleep(0.02)

    loop._Step.run = run_slowly
    opened = Session.open
    # The launcher calls a program that a `command:` names a "command", in the identity too.
    Session.open = lambda trainer, **options: opened(trainer=None, **options)
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

"""``unbroken.run()``: the one context that a training script needs."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unbroken.errors import UnbrokenError
from unbroken.training.progress import say
from unbroken.training.session import Session


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turns a person's mistake into one message and the exit code that belongs to it, without a traceback."""
    try:
        yield
    except UnbrokenError as error:
        # As a traceback would end: the launcher's own lines begin with "unbroken:", and this is the trainer's error.
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from error


@contextlib.contextmanager
def run(
    run_dir: Path | str | None = None,
    config: Path | str | Mapping[str, Any] | None = None,
    seed: int | None = None,
    *,
    trainer: str | None = None,
    ckpt_dir: Path | str | None = None,
    resume_from: Path | str | None = None,
    **operational: Any,
) -> Iterator[Session]:
    """Open the run that the launcher asks for, train it inside the ``with``, and end as the trainer contract says.

    ::

        with unbroken.run() as run:
            model = build(run.config)                              # all random generators are seeded already
            optimizer = torch.optim.Adam(model.parameters())
            run.attach(Parts(model, optimizer), Plan(len(data), batch_size=32, epochs=10))
            for batch in run.batches():                            # from where the run stands
                loss = step(model, optimizer, data[batch.records])
                run.commit(loss)                                   # saves where it is due, stops where it is asked to
            run.complete({"loss": evaluate(model)})

    SIGTERM, SIGUSR1, SIGUSR2 and SIGINT only set a flag from here on; ``commit`` then saves and ends with 42.

    Args:
        run_dir: where the run's files lie; default UNBROKEN_RUN_DIR.
        config: the run config, or its file; default UNBROKEN_CONFIG, or config.yaml in the run directory.
        seed: default UNBROKEN_SEED, or the config's own, or 0.
        trainer: the name in the identity; default the config's ``trainer``, or "command".
        ckpt_dir: where checkpoints lie; default the run directory's ``checkpoints``.
        resume_from: go on from this checkpoint instead of the run directory's own.
        operational: operational keys that win over the config's, e.g. ``checkpoint_interval=100``.

    Raises:
        SystemExit: 0, result.json is there and nothing is left to train; 42, saved after a signal; 44, the run
            directory belongs to another setting; 1, another mistake that is told in one message (no traceback).
    """
    with plain_errors():
        session = Session.open(
            run_dir, config, seed, trainer=trainer, ckpt_dir=ckpt_dir, resume_from=resume_from, **operational
        )
        with session:
            if session.finished:
                say(f"{session.paths.result} is there: nothing to train")
                raise SystemExit(0)
            yield session

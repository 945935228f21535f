"""The `unbroken` command: one file for each of its commands, see ``app.COMMANDS``."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave the process with its exit code. An UnbrokenError is one message, no traceback."""
    from unbroken.errors import UnbrokenError

    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if arguments is None and is_plain_status(words):
            _plain_status(words)
        from unbroken.cli.app import build

        build(words)(args=words, prog_name="unbroken")
    except UnbrokenError as error:
        print(f"unbroken: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # the reader, a pager or head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)


def is_plain_status(words: Sequence[str]) -> bool:
    """``status [slug] [--json]``: nothing in it needs typer, whose import takes as long as reading 3,000 runs."""
    options = [word for word in words[1:] if word.startswith("-")]
    return words[:1] == ["status"] and len(words) - len(options) <= 2 and set(options) <= {"--json"}


def _plain_status(words: Sequence[str]) -> NoReturn:
    """The whole process is ours: work in children, no garbage collection, no shutdown of the interpreter."""
    import gc

    gc.disable()  # ten thousand dictionaries, none of them in a cycle
    from unbroken.cli import ahead

    slug = next((word for word in words[1:] if word != "--json"), None)
    ahead.begin()
    from unbroken.cli.look import look

    look(slug, "--json" in words)
    sys.stdout.flush()
    os._exit(0)  # taking ten thousand rows apart again would take as long as printing them

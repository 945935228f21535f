"""``python -m unbroken.launch``: signal handlers first, everything else after."""

from unbroken.launch import signals

signals.install()

if __name__ == "__main__":
    import sys

    from unbroken.launch.launcher import main

    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1
    import os

    os._exit(code)  # no interpreter shutdown: a thread may wait for a pipe that nobody reads

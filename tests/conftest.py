"""What every test needs, wherever the session was started from."""

import signal


def pytest_configure() -> None:
    """A session started in the background ignores Ctrl-C, and so would everything that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

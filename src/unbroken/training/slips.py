"""The usual slips of a script that calls the session, each named with its fix."""

from collections.abc import Iterable

from unbroken.errors import UnbrokenError


def attached(there: bool, wanted: bool) -> None:
    """Raises UnbrokenError where ``attach`` came twice, or not before the batches."""
    if there and not wanted:
        raise UnbrokenError("attach() was called before: hand everything over in one call, once a start")
    if wanted and not there:
        raise UnbrokenError("nothing is attached yet: call attach() before batches()")


def committed(step: int, global_step: int) -> None:
    """Raises UnbrokenError unless effective batch ``step`` was committed exactly once."""
    if (times := global_step - step) != 1:
        raise UnbrokenError(
            f"effective batch {step} was committed {times} times: call commit() once in each turn of the loop"
        )


def columns(given: Iterable[str], known: frozenset[str]) -> None:
    """Raises UnbrokenError where a value would go into no column: it would be lost."""
    if not known.issuperset(given):
        raise UnbrokenError(
            f"commit() was given {', '.join(sorted(set(given) - known))}, which is no column of metrics.csv: "
            "name it in attach(columns=[...])"
        )

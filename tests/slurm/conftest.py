"""The session's cluster: one real Slurm for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster
from .workflow import running


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist, which reads the mark in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them on one worker of pytest-xdist, in turn: they share the cluster and wait most of the time."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("slurm"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The one that all tests share which do not ask for one of their own."""
    yield from running(Cluster())

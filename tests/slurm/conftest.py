"""The session's cluster: one real Slurm for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cluster import Cluster, ClusterUnavailable


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running cluster. Where it cannot start, every test that asks for it fails with the one line that says why."""
    try:
        running = Cluster().start()
    except ClusterUnavailable as error:
        pytest.fail(f"no test cluster: {error}", pytrace=False)
    try:
        yield running
    finally:
        running.stop()

"""Two minutes of the fault campaign; `make soak MINUTES=60` is the long one."""

from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.soak import soak

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def test_two_minutes_of_everything(tmp_path: Path, cluster: Cluster) -> None:
    report = soak(tmp_path, cluster, minutes=2, seed=1)
    print(report.text())
    assert not report.problems(), report.text()
    assert report.interruptions >= 8, report.text()

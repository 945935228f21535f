from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    yield project
    project.close()

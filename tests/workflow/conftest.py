import pytest

from tests.workflow.project import Project


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)

"""Tracking with the real wandb: one run over all attempts, each step once; no trouble there reaches the training."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.adapters_kit import Runs
from tests.integration.wandb_server import Server, stored
from tests.integration.zygote import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wandb")]
OFF: dict[str, Any] = {}
PATIENT = {"project": "p", "timeout_s": 120, "preempted_s": 120}
OFFLINE: dict[str, Any] = {"tracking": {"wandb": PATIENT}}
ONLINE: dict[str, Any] = {"tracking": {"wandb": {**PATIENT, "mode": "online"}}}
IMPATIENT: dict[str, Any] = {
    "tracking": {"wandb": {"project": "p", "mode": "online", "timeout_s": 1, "preempted_s": 1}}
}
ALL = list(range(1, 9))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs("tracked", tmp_path_factory.mktemp("tracked"))
    yield made
    made.zygote.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(**options: Any) -> Server:
        made.append(Server(**options))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def told_id(run: Path) -> str:
    return (run / "wandb_run_id.txt").read_text().strip()


def test_off_is_the_default(runs: Runs, run: Path) -> None:
    assert runs.start(run, OFF) == 0
    assert not list(run.glob("*wandb*"))


def test_one_run_over_all_attempts_and_each_step_once(runs: Runs, run: Path) -> None:
    assert runs.start(run, OFFLINE, "SIGTERM@3") == 42
    first = told_id(run)
    assert runs.start(run, OFFLINE, "SIGUSR1@2") == 42
    assert runs.start(run, OFFLINE) == 0
    assert told_id(run) == first
    assert stored(run) == [(first, [1, 2, 3]), (first, [4, 5]), (first, [6, 7, 8])]
    assert runs.changes(run, OFF) == []


def test_a_killed_attempt_is_told_no_step_twice(runs: Runs, run: Path) -> None:
    """Killed in step 6, of which the checkpoint has 4: 5 is trained again and not told again."""
    assert runs.start(run, OFFLINE, "SIGKILL@6", TEST_WAIT="5") == -9
    assert runs.start(run, OFFLINE) == 0
    assert stored(run) == [(told_id(run), [1, 2, 3, 4, 5]), (told_id(run), [6, 7, 8])]
    assert runs.changes(run, OFF) == []


def test_a_deleted_offline_run_goes_on_and_without_the_id_file_a_new_one_gets_all_steps(runs: Runs, run: Path) -> None:
    assert runs.start(run, OFFLINE, "SIGTERM@3") == 42
    first = told_id(run)
    shutil.rmtree(run / "wandb")
    assert runs.start(run, OFFLINE, "SIGTERM@3") == 42
    assert stored(run) == [(first, [4, 5, 6])]
    (run / "wandb_run_id.txt").unlink()
    assert runs.start(run, OFFLINE) == 0
    assert told_id(run) != first
    assert stored(run)[1] == (told_id(run), ALL)
    assert runs.changes(run, OFF) == []


def test_online_one_run_each_step_once_and_a_deleted_one_begun_anew(
    runs: Runs, run: Path, serve: Callable[..., Server]
) -> None:
    server = serve()
    assert runs.start(run, ONLINE, "SIGTERM@3", **server.environment) == 42
    first = told_id(run)
    assert runs.start(run, ONLINE, "SIGTERM@3", **server.environment) == 42
    assert told_id(run) == first and server.steps == {first: [1, 2, 3, 4, 5, 6]}
    server.deleted.add(first)
    assert runs.start(run, ONLINE, **server.environment) == 0, runs.log(run)
    assert f"the W&B run {first} was deleted there: a new one is begun" in runs.log(run)
    assert told_id(run) != first and server.steps[told_id(run)] == ALL
    assert runs.changes(run, OFF) == []


def test_what_a_dead_network_kept_back_is_told_later(runs: Runs, run: Path, serve: Callable[..., Server]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = {"WANDB_BASE_URL": f"http://127.0.0.1:{free.getsockname()[1]}", "WANDB_API_KEY": "a" * 40}
    assert runs.start(run, IMPATIENT, "SIGTERM@3", **nobody) == 42
    assert not (run / "wandb_run_id.txt").exists() and "tracking" in runs.log(run)
    server = serve()
    assert runs.start(run, ONLINE, **server.environment) == 0
    assert server.steps == {told_id(run): ALL}
    assert runs.changes(run, OFF) == []


def test_a_network_without_an_answer_and_a_missing_package(runs: Runs, run: Path, serve: Callable[..., Server]) -> None:
    silent = serve(silent=True).environment
    assert runs.start(run, IMPATIENT, "SIGTERM@3", **silent) == 42
    assert runs.start(run, IMPATIENT, "SIGTERM@3", TEST_WITHOUT="wandb") == 42
    assert "tracking is off from here on: ModuleNotFoundError" in runs.log(run)
    assert runs.start(run, IMPATIENT, **silent) == 0
    assert not (run / "wandb_run_id.txt").exists()
    assert runs.changes(run, OFF) == []


def test_a_script_ends_where_the_network_does_not_answer(runs: Runs, run: Path, serve: Callable[..., Server]) -> None:
    """Not by our trainers' quick way out, but with all that wandb does when Python ends; wandb would wait 600 s."""
    patient = {"tracking": {"wandb": {"project": "p", "mode": "online", "timeout_s": 600, "preempted_s": 1}}}
    assert runs.start(run, patient, "SIGKILL@1") == -9
    contract = {"UNBROKEN_RUN_DIR": str(run), "UNBROKEN_CONFIG": str(run.with_suffix(".yaml")), "UNBROKEN_SEED": "3"}
    environment = {**os.environ, **contract, **serve(silent=True).environment, "TEST_SIGNAL": "SIGTERM@3"}
    argv = [sys.executable, "-m", "tests.integration.tracked_trainer"]
    ended = subprocess.run(argv, env=environment, cwd=ROOT, timeout=300, capture_output=True, text=True)
    assert ended.returncode == 42 and "tracking has not come to its end in 1 s" in ended.stdout
    assert runs.start(run, OFF) == 0
    assert runs.changes(run, OFF) == []

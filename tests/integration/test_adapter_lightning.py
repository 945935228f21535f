"""The Lightning adapter with the real package: really signalled starts, each a process, against one left alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.adapters_kit import Runs
from tests.unit.training_kit import events

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lightning")]
PLAIN: dict[str, Any] = {}
CHAINS = [
    (PLAIN, ["SIGTERM@1", "SIGUSR1@3", "SIGUSR2@2", ""]),  # in the first batch, then in the middle of accumulations
    (PLAIN, ["SIGINT@5", "SIGTERM@5", ""]),  # in the last batch of an epoch, twice
    (PLAIN, ["SIGTERM@1"]),  # after every effective batch
    (PLAIN, ["SIGKILL@8", "SIGKILL@6", ""]),
    ({"max_steps": 8, "val_check_interval": 2}, ["SIGTERM@2"]),  # validations in the middle of an epoch
    ({"plateau": "epoch"}, ["SIGTERM@3", "SIGTERM@4"]),
    ({"workers": 2, "average": "optimizer_step"}, ["SIGTERM@3", "SIGTERM@5", ""]),
    ({"early_stop": True}, ["SIGTERM@2", "SIGKILL@4", "SIGTERM@1"]),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs("lightning", tmp_path_factory.mktemp("lightning"))
    yield made
    made.zygote.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.mark.parametrize(("config", "signals"), CHAINS)
def test_interrupted_ends_in_the_same_bits(runs: Runs, run: Path, config: dict[str, Any], signals: list[str]) -> None:
    runs.check_interrupted(run, config, signals)


@pytest.mark.parametrize("without", ["torch", "numpy", "python"])
def test_without_a_random_state_it_differs(runs: Runs, run: Path, without: str) -> None:
    """The controls: were they equal, the tests above would see nothing."""
    assert runs.interrupted(run, PLAIN, ["SIGTERM@4", ""], TEST_WITHOUT=without) == [42, 0]
    changed = runs.changes(run, PLAIN)
    assert ".metrics.csv" in changed
    assert any(name.startswith(".end.state_dict") for name in changed)


def test_where_exactness_ends(runs: Runs, run: Path) -> None:
    """As docs/adapters.md says: what the module changes in its own last hook of a step, a save after it has not."""
    config = {"average": "on_train_batch_end"}
    assert runs.interrupted(run, config, ["SIGTERM@3", ""]) == [42, 0]
    assert runs.changes(run, config) == [".result.json", ".end.state_dict.average"]


def test_a_torn_newest_checkpoint_is_set_aside(runs: Runs, run: Path) -> None:
    assert runs.start(run, PLAIN, "SIGTERM@5") == 42
    last = run / "checkpoints" / "last.pt"
    last.write_bytes(last.read_bytes()[:-1000])
    assert runs.start(run, PLAIN) == 0
    (rejected,) = events(run, "checkpoint_rejected")
    assert (rejected["file"], rejected["kept_as"]) == ("last.pt", "last.rejected-1.pt")
    assert (run / "checkpoints" / "last.rejected-1.pt").exists()
    assert events(run, "resumed")[0]["global_step"] == 2
    assert runs.changes(run, PLAIN) == []


def test_what_is_recorded(runs: Runs, run: Path) -> None:
    runs.check_recorded(run, "val_loss")


def test_another_config_is_refused_and_nothing_is_written(runs: Runs, run: Path) -> None:
    runs.check_refuses_another_config(run)


def test_a_finished_run_is_not_trained_again(runs: Runs, run: Path) -> None:
    runs.check_finished_stays(run)


@pytest.mark.parametrize(
    ("config", "env", "sentence"),
    [
        ({"own_loader": True}, {}, "take run.loader(dataset, batch_size=...)"),
        ({"plateau": "step"}, {}, "interval='epoch'"),
        (PLAIN, {"TEST_FORGETS": "ckpt_path"}, "ckpt_path=run.ckpt_path"),
        (PLAIN, {"SLURM_NTASKS": "1", "SLURM_JOB_NAME": "x"}, "plugins=[SLURMEnvironment(auto_requeue=False)]"),
        (PLAIN, {"WORLD_SIZE": "2"}, "unbroken.run(), which takes several"),
    ],
)
def test_what_would_not_be_exact_is_refused(
    runs: Runs, run: Path, config: dict[str, Any], env: dict[str, str], sentence: str
) -> None:
    if "TEST_FORGETS" in env:
        assert runs.start(run, config, "SIGTERM@3") == 42
    assert runs.start(run, config, **env) == 1
    assert sentence in runs.log(run) and "Traceback" not in runs.log(run)


def test_the_example(runs: Runs, run: Path) -> None:
    runs.check_example(run)

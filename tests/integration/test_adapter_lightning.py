"""The Lightning adapter with the real package: really signalled starts, each a process, against one left alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.adapters_kit import Runs
from tests.integration.zygote import ROOT
from tests.unit.training_kit import events, status
from unbroken.collection import load_collection

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
    codes = runs.interrupted(run, config, signals)
    assert codes[-1] == 0 and len(codes) > 2, runs.log(run)
    assert codes[:-1] == [-9 if "KILL" in signals[min(i, len(signals) - 1)] else 42 for i in range(len(codes) - 1)]
    assert runs.changes(run, config) == []


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
    assert runs.start(run, PLAIN, "SIGUSR1@3") == 42
    stopped = status(run)
    assert (stopped["status"], stopped["exit_code"], stopped["global_step"]) == ("preempted", 42, 2)
    assert runs.start(run, PLAIN) == 0
    assert (status(run)["status"], status(run)["global_step"], status(run)["total_steps"]) == ("completed", 9, 9)
    names = [json.loads(line)["event"] for line in (run / "events.jsonl").read_text().splitlines()]
    assert names[:4] == ["run_started", "checkpoint_saved", "graceful_shutdown", "run_started"]
    assert "resumed" in names and names[-1] == "run_completed"
    result = json.loads((run / "result.json").read_text())
    assert result["steps"] == 9 and result["metrics"].keys() == {"val_loss"}


def test_another_config_is_refused_and_nothing_is_written(runs: Runs, run: Path) -> None:
    assert runs.start(run, PLAIN, "SIGTERM@3") == 42
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert runs.start(run, {"lr": 1}) == 44
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert "belongs to another run" in runs.log(run)


def test_a_finished_run_is_not_trained_again(runs: Runs, run: Path) -> None:
    assert runs.start(run) == 0
    result = (run / "result.json").read_bytes()
    assert runs.start(run, PLAIN, "SIGKILL@1") == 0
    (run / "result.json").unlink()  # a kill between the last save and the result
    assert runs.start(run, PLAIN, "SIGKILL@1") == 0
    assert (run / "result.json").read_bytes() == result


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
    """The script of docs/adapters.md."""
    folder = ROOT / "examples" / "lightning"
    assert (folder / "train.py").read_text() in (ROOT / "docs" / "adapters.md").read_text()
    assert len(load_collection(folder / "lightning.yaml")) == 4
    config, script = {"epochs": 1, "hidden": 8, "lr": 0.01}, {"TEST_SCRIPT": "examples/lightning/train.py"}
    assert runs.interrupted(run, config, ["SIGTERM@20", "SIGKILL@30", ""], **script) == [42, -9, 0], runs.log(run)
    assert runs.changes(run, config, **script) == []

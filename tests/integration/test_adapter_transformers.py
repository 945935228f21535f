"""The adapter for Hugging Face's Trainer with the real package: really signalled starts against one left alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.adapters_kit import Runs
from tests.unit.training_kit import events

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("transformers")]
PLAIN: dict[str, Any] = {}
EVERY_STEP = {"arguments": {"eval_strategy": "steps", "eval_steps": 2, "logging_steps": 1, "max_steps": 8}}
THEIR_SAVES = {"arguments": {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 2}}
BEST = {
    "arguments": {
        "early_stop": 1, "save_strategy": "epoch", "load_best_model_at_end": True, "metric_for_best_model": "eval_loss",
        "restore_callback_states_from_checkpoint": True,
    },
}  # fmt: skip
CHAINS = [
    (PLAIN, ["SIGTERM@1", "SIGUSR1@3", "SIGUSR2@2", ""]),  # in the first batch, then in the middle of accumulations
    (PLAIN, ["SIGINT@5", "SIGTERM@5", ""]),  # in the last batch of an epoch, twice
    (PLAIN, ["SIGTERM@1"]),  # after every effective batch
    (PLAIN, ["SIGKILL@8", "SIGKILL@6", ""]),
    (EVERY_STEP, ["SIGTERM@2"]),
    (THEIR_SAVES, ["SIGTERM@3", "SIGKILL@4", ""]),
    ({"arguments": {"dataloader_num_workers": 2}}, ["SIGTERM@3", "SIGTERM@5", ""]),
    (BEST, ["SIGTERM@2", "SIGKILL@4", "SIGTERM@3"]),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs("transformers", tmp_path_factory.mktemp("transformers"))
    yield made
    made.zygote.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def folders(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir() if path.is_dir())


@pytest.mark.parametrize(("config", "signals"), CHAINS)
def test_interrupted_ends_in_the_same_bits(runs: Runs, run: Path, config: dict[str, Any], signals: list[str]) -> None:
    runs.check_interrupted(run, config, signals)


@pytest.mark.parametrize("without", ["torch", "numpy", "python"])
def test_without_the_random_states_it_differs(runs: Runs, run: Path, without: str) -> None:
    """The controls: were they equal, the tests above would see nothing."""
    assert runs.interrupted(run, PLAIN, ["SIGTERM@4", ""], TEST_WITHOUT=without) == [42, 0]
    changed = runs.changes(run, PLAIN)
    assert ".metrics.csv" in changed and any(name.startswith(".end.model") for name in changed)


def test_where_exactness_ends(runs: Runs, tmp_path: Path) -> None:
    """As docs/adapters.md says: Trainer fetches ahead, so data that draw random numbers differ after a stop in it."""
    config = {"noise": 0.1}
    assert runs.interrupted(tmp_path / "at_its_end", config, ["SIGTERM@5", ""]) == [42, 0]
    assert runs.changes(tmp_path / "at_its_end", config) == []
    assert runs.interrupted(tmp_path / "in_it", config, ["SIGTERM@3", ""]) == [42, 0]
    assert ".metrics.csv" in runs.changes(tmp_path / "in_it", config)


@pytest.mark.parametrize("torn", ["last.pt", "checkpoint-4/optimizer.pt", "checkpoint-4/model.safetensors"])
def test_a_torn_newest_checkpoint_is_set_aside(runs: Runs, run: Path, torn: str) -> None:
    assert runs.start(run, PLAIN, "SIGTERM@7") == 42
    assert folders(run) == ["checkpoint-2", "checkpoint-4"]
    path = run / "checkpoints" / torn
    path.write_bytes(path.read_bytes()[:-100])
    assert runs.start(run, PLAIN) == 0
    moved = [(event["file"], event["kept_as"]) for event in events(run, "checkpoint_rejected")]
    assert moved == [("last.pt", "last.rejected-1.pt"), ("checkpoint-4", "rejected-1.checkpoint-4")]
    assert "rejected-1.checkpoint-4" in folders(run)
    assert events(run, "resumed")[0]["global_step"] == 2
    assert runs.changes(run, PLAIN) == []


@pytest.mark.parametrize(("step", "goes_on_from"), [(2, 0), (4, 2)])
def test_a_folder_that_a_kill_left_half_written_is_not_used(
    runs: Runs, run: Path, step: int, goes_on_from: int
) -> None:
    assert runs.start(run, PLAIN, TEST_KILL_IN_SAVE=str(step)) == -9
    assert f"checkpoint-{step}" in folders(run)
    assert runs.start(run, PLAIN) == 0
    assert [event["global_step"] for event in events(run, "resumed")] == ([goes_on_from] if goes_on_from else [])
    assert runs.changes(run, PLAIN) == []


def test_what_is_recorded_and_kept(runs: Runs, run: Path) -> None:
    runs.check_recorded(run, "eval_loss")
    assert folders(run) == ["checkpoint-8", "checkpoint-9"]


def test_another_config_is_refused_and_nothing_is_written(runs: Runs, run: Path) -> None:
    runs.check_refuses_another_config(run)


def test_a_finished_run_is_not_trained_again(runs: Runs, run: Path) -> None:
    runs.check_finished_stays(run)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"output_dir": "elsewhere"}, "output_dir=run.output_dir"),
        ({"seed": 42}, "is not the run's seed 3: give seed=run.seed"),
        ({"save_total_limit": 1}, "give 2 or more"),
        ({"ignore_data_skip": True}, "trains an epoch's first records again"),
        ({"accelerator_config": {"use_seedable_sampler": False}}, "leave it out"),
    ],
)
def test_what_would_not_be_exact_is_refused(runs: Runs, run: Path, wrong: dict[str, Any], sentence: str) -> None:
    assert runs.start(run, {"arguments": wrong}) == 1
    assert sentence in runs.log(run) and "Traceback" not in runs.log(run)


def test_the_example(runs: Runs, run: Path) -> None:
    runs.check_example(run)


def test_trainers_own_train_is_refused(runs: Runs, run: Path) -> None:
    assert runs.start(run, PLAIN, TEST_FORGETS="1") == 1
    assert "call run.train(trainer) in its place" in runs.log(run) and "Traceback" not in runs.log(run)

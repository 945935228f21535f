"""A collection file and the runs it gives: what changes a path, what does not."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unbroken.collection import Collection, Run, identity, load_collection, load_yaml
from unbroken.collection.command import fill_command
from unbroken.collection.operational import DEFAULTS, OPERATIONAL_KEYS

BASE = """
description: one
trainer: consensus
config:
  epochs: 6
  lr: 0.001
  optim: {name: adam, wd: 0.1}
data: {source: synthetic_river, seed: 7}
grid:
  hidden: [16, 32]
  optim.wd: [0, 0.5]
seeds: 2
resources: {mem_mb: 500}
operational: {keep_last: 3}
"""

Load = Callable[..., Collection]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def from_text(text: str, overrides: dict[str, Any] | None = None) -> Collection:
        path = tmp_path / "x.yaml"
        path.write_text(text, encoding="utf-8")
        return load_collection(path, overrides)

    return from_text


def ids(collection: Collection) -> list[str]:
    return [setting.id for setting in collection.settings]


def points(collection: Collection, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(setting.config.get(key) for key in keys) for setting in collection.settings]


def test_run_directories_are_the_ones_committed_here(load: Load) -> None:
    runs = list(load(BASE).runs())
    assert [str(run.paths("runs").root) for run in runs] == [
        f"runs/x/{setting}/seed_{seed}"
        for setting in ("61dd0a4829b2", "74c8e762e02c", "51c53e7e84fe", "7e14b905dbdc")
        for seed in (0, 1)
    ]
    assert runs[0].label == "hidden=16 optim.wd=0"
    text = '{"data":{"seed":7,"source":"synthetic_river"},"epochs":6,"hidden":16,"lr":0.001,'
    text += '"optim":{"name":"adam","wd":0},"trainer":"consensus"}'
    assert identity.canonical_json(runs[0].point.config) == text


@pytest.mark.parametrize(
    "change",
    [
        ("lr: 0.001", "lr: 1e-3"),
        ("lr: 0.001", "lr: 1.0e-03   # the rate"),
        ("epochs: 6", "epochs: 6.0"),
        ("description: one", "# a comment\ndescription: two"),
        ("optim: {name: adam, wd: 0.1}", "optim: {wd: 7, 'name': \"adam\"}"),
        ("optim: {name: adam, wd: 0.1}", "optim.name: adam"),
        ("  epochs: 6\n  lr: 0.001\n", "  lr: 0.001\n  epochs: 6\n"),
        ("  lr: 0.001\n", ""),
        ("seeds: 2", "seeds: [1, 0, 5]"),
        ("hidden: [16, 32]", "hidden: [32, 16]"),
        ("mem_mb: 500", "mem_mb: 900, slurm_partition: gpu"),
        ("operational: {keep_last: 3}", "processes: 1"),
        ("[0, 0.5]", "[-0.0, .5]"),
        ("data: {source: synthetic_river, seed: 7}", "data: {seed: 7, source: 'synthetic_river'}"),
    ],
    ids=repr,
)
def test_what_changes_no_path(load: Load, change: tuple[str, str]) -> None:
    assert change[0] in BASE
    text = BASE.replace(*change)
    if change == ("  lr: 0.001\n", ""):
        text = text.replace("grid:", "grid:\n  lr: [1e-3]")
    assert set(ids(load(text))) == set(ids(load(BASE)))


@pytest.mark.parametrize("key", sorted(OPERATIONAL_KEYS))
def test_an_operational_key_changes_no_path(load: Load, key: str) -> None:
    other: Any = {"checkpoint_interval": 5, "memory_cap_mb": 9, "time_limit_margin": 9}.get(key)
    if other is None:
        default = DEFAULTS[key]
        other = (not default) if isinstance(default, bool) else {} if isinstance(default, dict) else default + 1
    plain = BASE.replace("operational: {keep_last: 3}\n", "").replace("resources: {mem_mb: 500}\n", "")
    block = load(plain, {"operational": {key: other}})
    flat = load(plain, {"config": {key: other}})
    assert ids(block) == ids(flat) == ids(load(BASE))
    for collection in (block, flat):
        assert next(collection.runs()).run_config()[key] == other


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (("epochs: 6", "epochs: 7"), 0),
        (("wd: 0.1", "wd: 0.1, eps: 1"), 0),
        (("trainer: consensus", "trainer: entangled"), 0),
        (("trainer: consensus", "trainer: consensus\nprocesses: 2"), 0),
        (("seed: 7", "seed: 8"), 0),
        (("lr: 0.001", "lr: '1e-3'"), 0),
        (("lr: 0.001", "lr: 0.001\n  flag: true"), 0),
        (("[16, 32]", "[16, 64]"), 2),
        (("[16, 32]", "[16, 32, 64]"), 4),
        (("[0, 0.5]", "[0, 0.25]"), 2),
    ],
    ids=repr,
)
def test_an_experiment_key_changes_exactly_its_runs(load: Load, change: tuple[str, str], kept: int) -> None:
    assert change[0] in BASE
    assert len(set(ids(load(BASE.replace(*change, 1)))) & set(ids(load(BASE)))) == kept


def test_true_and_one_are_two_settings(load: Load) -> None:
    assert len(load("trainer: consensus\nseeds: 1\ngrid: {a: [true, 1, '1', 'true', null, 'null']}").settings) == 6


def test_every_source_of_settings(load: Load, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(
        '\ufeffa,b,"o.c"\n10,"x, y",1e-3\n\n11,,null\n"12",\'7\',true\n', encoding="utf-8"
    )
    collection = load(
        "trainer: consensus\nseeds: 1\nconfig: {a: 0, b: base, o: {c: 5, d: 6}}\n"
        "grid: {a: [1, 2]}\nzip: {b: [p, q, r], o.c: [7, 8, 9]}\nsettings: [{a: 3}, {o: {d: 0}, b: s}]\n"
        "table: more.csv\nexclude: [{a: 2, b: q}, {o: {c: 9}, a: 1}]\n"
    )
    assert points(collection, "a", "b", "o") == [
        (1, "p", {"c": 7, "d": 6}),
        (1, "q", {"c": 8, "d": 6}),
        (2, "p", {"c": 7, "d": 6}),
        (2, "r", {"c": 9, "d": 6}),
        (3, "base", {"c": 5, "d": 6}),
        (0, "s", {"c": 5, "d": 0}),
        (10, "x, y", {"c": 0.001, "d": 6}),
        (11, "base", {"c": None, "d": 6}),
        (12, "7", {"c": True, "d": 6}),
    ]
    assert collection.settings[0].label == "a=1 b=p o.c=7 o.d=6"
    assert collection.settings[6].label == 'a=10 b="x, y" o.c=0.001 o.d=6'


def test_without_a_grid_the_config_is_the_only_setting(load: Load) -> None:
    collection = load("trainer: consensus\nseeds: [4]\nconfig: {a: 1}")
    assert [(run.seed, run.label) for run in collection.runs()] == [(4, "base")]
    assert len(collection) == 1


def test_a_run_finds_itself(load: Load) -> None:
    collection = load(BASE)
    run = list(collection.runs())[5]
    assert collection.run(run.setting, run.seed) == run and hash(collection.run(run.setting, run.seed)) == hash(run)
    assert collection.setting(run.setting) is run.point
    assert len(collection) == len(set(collection.runs())) == 8
    assert repr(run) == f"Run(x/{run.setting}/seed_1)"
    with pytest.raises(KeyError):
        collection.run(run.setting, 2)
    with pytest.raises(KeyError):
        collection.setting("0" * 12)


def test_run_config_holds_all_keys_and_sanitizes_to_the_identity(load: Load) -> None:
    for run in load(BASE).runs():
        config = run.run_config()
        assert config["seed"] == run.seed and config["collection"] == "x" and config["trainer"] == "consensus"
        assert config["resources"] == {"mem_mb": 500} and config["keep_last"] == 3
        assert set(config) >= OPERATIONAL_KEYS and config["data"] == {"source": "synthetic_river", "seed": 7}
        assert identity.config_hash(identity.sanitize(config)) == run.point.config_hash
        config["optim"]["name"] = "changed"
        assert run.run_config()["optim"]["name"] == "adam"


def test_launch_spec_is_json_and_its_config_reads_back(load: Load, tmp_path: Path) -> None:
    run = next(load(BASE).runs())
    spec = run.launch_spec()
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec
    (tmp_path / "config.yaml").write_text(spec["config_yaml"])
    assert load_yaml(tmp_path / "config.yaml") == run.run_config()
    assert spec["identity"] == {
        "schema_version": 1,
        "config_hash": run.point.config_hash,
        "collection": "x",
        "seed": 0,
        "trainer": "consensus",
        "config": run.point.config,
    }
    assert spec["command"] == [
        *("{python}", "-m", "unbroken.trainers.consensus"),
        *("--config", "{config}", "--run-dir", "{run_dir}"),
    ]
    assert (spec["processes"], spec["resources"], spec["operational"]["keep_last"]) == (1, {"mem_mb": 500}, 3)


def test_a_command_is_words_not_shell(load: Load) -> None:
    run = next(load("seeds: 1\ncommand: \"python 'my train.py' --c={config} {{x}} '$(id);' --s {seed}\"").runs())
    spec = run.launch_spec()
    assert spec["identity"]["trainer"] == "command" and spec["identity"]["config"]["command"] == run.of.command
    values = {"config": "/a b/{seed}.yaml", "seed": "0"}
    assert fill_command(spec["command"], values) == [
        "python",
        "my train.py",
        "--c=/a b/{seed}.yaml",
        "{x}",
        "$(id);",
        "--s",
        "0",
    ]


def test_overrides_lie_over_the_file(load: Load) -> None:
    collection = load(BASE, {"seeds": [9], "config": {"epochs": 1}, "operational": {"keep_last": 1}})
    assert collection.seeds == (9,) and collection.operational["keep_last"] == 1
    assert {setting.config["epochs"] for setting in collection.settings} == {1}
    assert collection.settings[0].config["lr"] == 0.001


@pytest.mark.parametrize(
    ("given", "value"), [("'false'", False), ("no", False), ("0", False), ("'true'", True), ("true", True)]
)
def test_the_snapshot_switch_is_parsed(load: Load, given: str, value: bool) -> None:
    collection = load(f"trainer: consensus\nseeds: 1\noperational: {{job_code_snapshot_enabled: {given}}}")
    assert collection.operational["job_code_snapshot_enabled"] is value


def test_empty_blocks_are_allowed(load: Load) -> None:
    collection = load("trainer: consensus\nseeds: 1\ndescription:\nconfig:\ndata:\nresources:\noperational:\n")
    assert collection.resources == {} and collection.description == "" and len(collection) == 1


HOSTILE = [
    "'",
    '"',
    "$(id)",
    "`id`",
    "a\nb",
    "; rm -rf /",
    "../../etc",
    "ключ 漢🌊",
    "x" * 100_000,
    "\x00",
    "\x85\u2028",
    " ",
    "{seed}",
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: ascii(value)[:20])
def test_hostile_values_stay_values(load: Load, tmp_path: Path, value: str) -> None:
    quoted, key = (json.dumps(text, ensure_ascii=max(text) <= "\uffff") for text in (value, "k" + value[:5000]))
    more = "" if "." in value else f", ? {key} : [1]"
    collection = load(f"trainer: consensus\nseeds: 1\ngrid: {{a: [1, {quoted}]{more}}}")
    run: Run = list(collection.runs())[1]
    assert run.point.config["a"] == value
    assert "\n" not in run.label and len(run.label) < 100
    assert run.paths("runs").root.parts == ("runs", "x", run.setting, "seed_0") and run.setting.isalnum()
    (tmp_path / "config.yaml").write_text(run.launch_spec()["config_yaml"], encoding="utf-8")
    assert load_yaml(tmp_path / "config.yaml") == run.run_config()


def test_a_thousand_settings_take_as_many_calls_each_as_a_hundred(load: Load) -> None:
    """How long that takes is row 12 of the benchmarks."""

    def calls(keys: str) -> int:
        text = "trainer: consensus\nseeds: 3\ngrid:\n" + "".join(f"  {key}: {list(range(1, 11))}\n" for key in keys)
        counted = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal counted
            counted += event == "call"

        load(text)
        sys.setprofile(count)
        try:
            assert len(load(text)) == 3 * 10 ** len(keys)
        finally:
            sys.setprofile(None)
        return counted

    assert calls("abc") / 1000 < 1.2 * calls("ab") / 100

"""Identity: canonical JSON, hash, difference. A change of any vector renames every run directory there is."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from unbroken.collection import identity
from unbroken.collection.operational import OPERATIONAL_KEYS

VECTORS = json.loads((Path(__file__).parent / "vectors" / "identity.json").read_text(encoding="utf-8"))


def independent(value: Any) -> str:
    """The canonical form once more, written from its description alone."""
    if value is None:
        return "null"
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        out = ""
        for unit in memoryview(value.encode("utf-16-le")).cast("H"):
            short = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}.get(unit)
            out += short or (chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}")
        return f'"{out}"'
    if isinstance(value, list):
        return "[" + ",".join(map(independent, value)) + "]"
    return "{" + ",".join(f"{independent(key)}:{independent(value[key])}" for key in sorted(value)) + "}"


def anything(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind == 6:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {text(rng): anything(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [None, rng.random() < 0.5, rng.randrange(-9, 9), rng.gauss(0, 1) ** 9, float(rng.randrange(9)), text(rng)][
        kind
    ]


def text(rng: random.Random) -> str:
    return "".join(rng.choice("ab.\"'\\\n\t \x00\x7fé漢🌊$(`{}:#-0") for _ in range(rng.randrange(6)))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector(vector: dict[str, Any]) -> None:
    assert identity.canonical_json(vector["config"]) == vector["canonical_json"] == independent(vector["config"])
    assert identity.config_hash(vector["config"]) == vector["config_hash"]
    assert hashlib.sha256(vector["canonical_json"].encode()).hexdigest() == vector["config_hash"]


@pytest.mark.parametrize("seed", range(200))
def test_agrees_with_an_independent_implementation(seed: int) -> None:
    value = {"x": anything(random.Random(seed))}
    assert identity.canonical_json(value) == independent(value)
    assert json.loads(identity.canonical_json(value)) == value


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1: 2}, {"a": {None: 1}}, {1, 2}, b"x", object()],
    ids=lambda value: type(value).__name__,
)
def test_refuses_what_has_no_form(value: Any) -> None:
    with pytest.raises(ValueError):
        identity.canonical_json({"x": value})


def test_subclasses_of_plain_types_count_as_these() -> None:
    class MyFloat(float):
        pass

    class MyText(str):
        pass

    assert identity.canonical_json([MyFloat(2), MyFloat(0.5), MyText("a"), (1,)]) == '[2,0.5,"a",[1]]'


def test_sanitize_leaves_the_experiment() -> None:
    config = {
        **dict.fromkeys(OPERATIONAL_KEYS, 1),
        "seed": 3,
        "collection": "x",
        "description": "y",
        "lr": 0.1,
        "trainer": "t",
    }
    assert identity.sanitize(config) == {"lr": 0.1, "trainer": "t"}


def test_diff_names_each_key() -> None:
    old = {"lr": 0.1, "same": 1, "optim": {"name": "adam", "wd": 0}, "gone": [1], "flag": True, "e": {}}
    new = {"lr": 0.2, "same": 1.0, "optim": {"name": "sgd", "wd": 0}, "new": None, "flag": 1, "e": {"x": 1}}
    assert identity.diff(old, new) == [
        ("e", {}, identity.ABSENT),
        ("e.x", identity.ABSENT, 1),
        ("flag", True, 1),
        ("gone", [1], identity.ABSENT),
        ("lr", 0.1, 0.2),
        ("new", identity.ABSENT, None),
        ("optim.name", "adam", "sgd"),
    ]
    assert repr(identity.ABSENT) == "(absent)"


def test_diff_is_empty_only_for_equal_hashes() -> None:
    assert identity.diff({"a": {"b": 1}}, {"a": {"b": 1.0}}) == []
    assert identity.diff({"a.b": 1, "a": {"b": 2}}, {"a.b": 3, "a": {"b": 2}}) == [('"a.b"', 1, 3)]
    for seed in range(300):
        rng = random.Random(seed)
        one, other = {"x": anything(rng)}, {"x": anything(rng)}
        equal = identity.config_hash(one) == identity.config_hash(other)
        assert equal == (not identity.diff(one, other))

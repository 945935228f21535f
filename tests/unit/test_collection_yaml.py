"""One meaning a scalar, and config.yaml read back as the same values by us and by PyYAML."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from unbroken.collection import dump_yaml, load_yaml
from unbroken.collection.yaml_io import scalar

SCALARS: list[tuple[str, Any]] = [
    ("1e-3", 0.001),
    ("1E5", 100000.0),
    (".5e3", 500.0),
    ("1.e2", 100.0),
    ("-1e-03", -0.001),
    ("+.5", 0.5),
    ("1.", 1.0),
    ("0", 0),
    ("-7", -7),
    ("0x1F", 31),
    ("0o17", 15),
    ("18446744073709551615", 2**64 - 1),
    ("true", True),
    ("False", False),
    ("null", None),
    ("~", None),
    ("yes", "yes"),
    ("No", "No"),
    ("on", "on"),
    ("off", "off"),
    ("y", "y"),
    ("01013500", "01013500"),
    ("007", "007"),
    ("1_000", "1_000"),
    ("12:30:00", "12:30:00"),
    ("2020-01-01", "2020-01-01"),
    ("1e", "1e"),
    (".", "."),
    ("-", "-"),
    ("0b11", "0b11"),
    ("=", "="),
    ("nan", "nan"),
    ("inf", "inf"),
    ("٣", "٣"),
    ("tRUE", "tRUE"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalar(tmp_path: Path, text: str, value: Any) -> None:
    assert same(scalar(text), value)
    path = tmp_path / "x.yaml"
    if text != "-":
        path.write_text(f"a: {text}\nb: [{text}]", encoding="utf-8")
        assert same(load_yaml(path), {"a": value, "b": [value]})
    path.write_text(f"a: '{text}'", encoding="utf-8")
    assert same(load_yaml(path), {"a": text})


def test_quoted_cells_are_text() -> None:
    assert [scalar("'1'"), scalar('"true"'), scalar("'"), scalar("")] == ["1", "true", "'", None]


def same(one: Any, other: Any) -> bool:
    """Equal with types and signs, deep."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


def anything(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind == 7:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 8:
        return {text(rng): anything(rng, depth + 1) for _ in range(rng.randrange(4))}
    big = rng.randrange(-(2**63), 2**64)
    return [
        None,
        rng.random() < 0.5,
        big,
        rng.gauss(0, 1) ** 99,
        float(rng.randrange(-5, 5)),
        text(rng),
        10.0 ** rng.randrange(-300, 300),
    ][kind]


def text(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(SCALARS)[0]
    return "".join(
        rng.choice("ab.\"'\\\n\t\r \x00\x7f\x85\u2028\ufeffé漢🌊$(`{}[]:#-0&*!|>%@~<=?,")
        for _ in range(rng.randrange(7))
    )


@pytest.mark.parametrize("seed", range(300))
def test_dump_reads_back_exactly(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    config = {text(rng): anything(rng) for _ in range(6)}
    path = tmp_path / "config.yaml"
    path.write_bytes(dump_yaml(config).encode("utf-8"))
    assert same(load_yaml(path), config)
    assert same(yaml.safe_load(path.read_bytes()), config)


def test_dump_is_sorted_and_has_no_anchors() -> None:
    shared = [1, 2]
    assert dump_yaml({"b": shared, "a": shared, "c": 1e-05}) == "a:\n- 1\n- 2\nb:\n- 1\n- 2\nc: 1.0e-05\n"


def test_anchors_and_merges(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{y: 4}, *a], z: 5}\nd: [*a, *a]\ne: '<<'\n")
    one = {"x": 1, "y": 2}
    expected = {"a": one, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 4, "z": 5}, "d": [one, one], "e": "<<"}
    assert load_yaml(path) == expected


def test_the_python_parser_serves_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unbroken.collection import yaml_io
    from unbroken.errors import CollectionError

    slow = type("_Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": yaml_io._resolvers()})
    monkeypatch.setattr(yaml_io, "_Loader", slow)
    path = tmp_path / "x.yaml"
    path.write_text("a: [1e-3, 01013500, yes]\n")
    assert load_yaml(path) == {"a": [0.001, "01013500", "yes"]}
    for hostile in ("a: " + "[" * 20_000, 'a: "\\ud800"', "a: \x01"):
        path.write_text(hostile)
        with pytest.raises(CollectionError):
            load_yaml(path)

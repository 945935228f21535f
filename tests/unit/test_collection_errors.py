"""Every mistake in a collection file is one sentence: file, line, key, value, fix."""

import random
from pathlib import Path

import pytest
import yaml

from unbroken.collection import load_collection
from unbroken.errors import CollectionError

B = "trainer: consensus\nseeds: 2\n"


def message(path: Path, text: str | bytes | None) -> str:
    """What a person reads, less the path in front."""
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    with pytest.raises(CollectionError) as caught:
        load_collection(path)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and sentence.count(": ") >= 1 and len(sentence) < 500
    return sentence.removeprefix(str(path)).replace(str(path.parent), "{folder}")


MISTAKES = yaml.safe_load((Path(__file__).parent / "vectors" / "mistakes.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case["name"])
def test_mistake(tmp_path: Path, case: dict[str, str]) -> None:
    assert message(tmp_path / "x.yaml", case["text"]) == case["message"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [1", "is not valid YAML"),
        ("a:\n\t- 1", ", line 2: is not valid YAML"),
        (B + "---\na: 1", "expected a single document"),
        (B + "config: *x", "found undefined alias"),
        (B + "config: \x01", "control characters are not allowed"),
        (B + 'config: {a: "\\ud800"}', "is not valid YAML"),
        (B + "config: \ud800", "is not UTF-8 (byte"),
        (b"\xff\xfe", "is not UTF-8 (byte 0); save it as UTF-8"),
        (B + "config: " + "[" * 60 + "]" * 60, ", line 3: is nested deeper than 50 levels; flatten it"),
        (B + "config: " + "[" * 100_000, "nest"),
        (B + "config: {a: " + "9" * 5000 + "}", "is not a 64-bit integer"),
        (B + "config: {a: 0x" + "f" * 5000 + "}", "is not a 64-bit integer"),
        (B + "config: {a: " + "9" * 5000 + ".5}", "is not a finite number"),
        (B + "grid: {" + ",".join(f"k{i}: [1,2,3,4,5,6,7,8,9,0]" for i in range(20)) + "}", "over the 1000000 allowed"),
        (B + "seeds: [" + "[" * 40 + "]" * 40 + "]", "stands twice"),
        (B + "table: " + "x" * 300, "but there is no such file"),
        (B + "? zz" + "z" * 5000 + "\n: 1", "is no known key"),
        (B + "operational: {checkpoint_interval: " + "x" * 5000 + "}", "write a whole number of at least 0 or `auto`"),
    ],
)
def test_broken_or_hostile_text(tmp_path: Path, text: str | bytes, part: str) -> None:
    assert part in message(tmp_path / "x.yaml", text)


def test_a_yaml_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["  a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [
        f"  {key}: &{key} [{', '.join([f'*{above}'] * 10)}]" for above, key in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "anchors that expand to over 1000000 values" in message(
        tmp_path / "x.yaml", B + "config:\n" + "\n".join(lines)
    )
    merges = ["  a: &a {" + ", ".join(f"k{i}: {i}" for i in range(1000)) + "}"]
    merges += [
        f"  {key}: &{key} {{<<: [{', '.join([f'*{above}'] * 20)}]}}"
        for above, key in zip("abcde", "bcdef", strict=True)
    ]
    assert "anchors that expand" in message(tmp_path / "x.yaml", B + "config:\n" + "\n".join(merges))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all.yaml", ': gives the slug "all", which names a rule; rename the file.'),
        ("x.yml", ': ends in ".yml"; name it <slug>.yaml.'),
        ("x", ': ends in ""; name it <slug>.yaml.'),
    ],
)
def test_file_name(tmp_path: Path, name: str, expected: str) -> None:
    assert message(tmp_path / name, B) == expected


@pytest.mark.parametrize("stem", ["Bad", "-a", "_a", "a b", "a.b", "a$(id)", "ü", "x" * 65, "a\n", "a'"])
def test_slug(tmp_path: Path, stem: str) -> None:
    path = tmp_path / f"{stem}.yaml"
    path.write_text(B)
    with pytest.raises(CollectionError, match=r"gives the slug .* not allowed; rename it to up to 64 of a-z") as caught:
        load_collection(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    assert message(tmp_path / "demo.yaml", None) == ": does not exist; write it, there is none in {folder}."
    (tmp_path / "camels.yaml").write_text(B)
    assert message(tmp_path / "camel.yaml", None) == ": does not exist; did you mean `camels`."
    assert message(tmp_path / "demo.yaml", None) == ": does not exist; write it, or use one of camels."
    (tmp_path / "folder.yaml").mkdir()
    assert message(tmp_path / "folder.yaml", None).startswith(": does not exist")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("", ": has no header; write the keys, separated by commas, into its first line."),
        ("a,b\n", ": has a header but no rows; add a row or remove `table:` from the collection."),
        ("a,,b\n1,2,3\n", ": has no name over column 2; write its key there."),
        ("a,a\n1,2\n", ': has two columns "a"; remove one.'),
        ("a,b\n1,2\n1\n", ", line 3: has 1 cells under 2 columns; quote cells that hold a comma."),
        ('a,b\n1,"2\n', ", line 2: is not valid CSV (unexpected end of data); mend that line."),
        (
            "a\n1\n.inf\n",
            ', line 3: column "a": ".inf" is not a finite number; write a finite one, or quote it as text.',
        ),
        (
            "keep_last\n1\n",
            ", line 2: `keep_last` is an operational key, which never makes a different setting; "
            "move it to `operational:`.",
        ),
        ("seed\n1\n", ", line 2: `seed` is a reserved key; give it as `seeds:` at the top level of the file."),
        ("lr.x\n1\n", ", line 2: `lr.x` reaches into `lr`, which is 3 in `config:`; make that a mapping."),
        (b"\xff", ": is not UTF-8 (byte 0); save it as UTF-8."),
    ],
)
def test_table(tmp_path: Path, table: str | bytes, expected: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(table.encode() if isinstance(table, str) else table)
    got = message(tmp_path / "x.yaml", B + "config: {lr: 3}\ntable: t.csv")
    assert got.replace("{folder}/t.csv", "") == expected


def test_a_row_that_repeats_a_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n2\n1.0\n")
    got = message(tmp_path / "x.yaml", B + "table: t.csv")
    assert got == ", line 3: line 2 of t.csv and line 4 of t.csv give the same setting (a=1); remove one."


def test_two_settings_with_one_directory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbroken.collection.identity.setting_id", lambda full: "0" * 12)
    got = message(tmp_path / "x.yaml", B + "grid: {a: [1, 2]}")
    assert got == ": two points of `grid` share the first 12 digits of their hash; change any value of one."


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"seeds": "x"}, '`seeds` is "x"; write a count, e.g. 3, or a list of whole numbers, e.g. [0, 1, 2].'),
        ({"sede": 1}, "`sede` is no known key; did you mean `seeds`."),
        ({"config": {"a": float("nan")}}, "has a value that YAML cannot hold"),
        ({"config": {1: 2}}, "has a value that YAML cannot hold (the key 1 is not text); mend it."),
    ],
)
def test_overrides(tmp_path: Path, overrides: dict[str, object], expected: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(B)
    with pytest.raises(CollectionError) as caught:
        load_collection(path, overrides)
    assert str(caught.value).startswith(f"{path} with overrides: ") and expected in str(caught.value)


@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_file_never_ends_in_a_traceback(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    text = bytearray(B.encode() + b"config: {lr: 1e-3, o: [1, 'a']}\ngrid:\n  a: [1, 2]\n  o.x: &x [true]\n")
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(text))
        text[at : at + rng.randrange(4)] = rng.choice(
            [
                *(bytes([byte]) for byte in b":[]{}&*!|>'\"#%@`,-?\n\t \x00\xff<~"),
                b"<<: ",
                b"*x ",
                b"!!int ",
                b"---\n",
                b"? ",
            ]
        )
    path = tmp_path / "x.yaml"
    path.write_bytes(text)
    try:
        load_collection(path)
    except CollectionError as error:
        assert "\n" not in str(error)

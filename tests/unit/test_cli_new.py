"""`unbroken new` and `unbroken init`: what they write, and that they never overwrite."""

import os
from pathlib import Path

import pytest
import yaml
from cli_kit import Cli

from unbroken.cli.init import files_of, project_source
from unbroken.collection import load_collection


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(tmp_path, capsys)


NASTY = "$(touch pwned) `x` \"'\\ {{braces}} ünï: #c"


def test_from_flags(cli: Cli) -> None:
    schemas = cli.folder / "workflow" / "schemas"
    schemas.mkdir(parents=True)
    (schemas / "collection.schema.json").write_text("{}")
    code, said = cli(
        *("new", "y", "-c", "python t.py {config}", "-s", "opt.lr=1e-3", "-s", f"name={NASTY}"),
        *(
            "-g",
            "hidden=[16, 32]",
            "-g",
            "kind=a,b",
            "--seeds",
            "7,11",
            "--runtime",
            "2h",
            "--mem-mb",
            "100",
            "--gpus",
            "1",
        ),
        *("--description", NASTY, "--pin-code"),
    )
    assert code == 0 and "8 runs" in said
    path = cli.collections / "y.yaml"
    assert path.read_text().startswith(
        "# yaml-language-server: $schema=../../workflow/schemas/collection.schema.json\n"
    )
    collection = load_collection(path)
    assert collection.seeds == (7, 11) and collection.resources == {"runtime": "2h", "mem_mb": 100, "gpus": 1}
    assert collection.settings[0].config["name"] == NASTY and collection.settings[0].config["opt"] == {"lr": 0.001}
    assert collection.description == NASTY and collection.operational["job_code_snapshot_enabled"] is True
    assert not (cli.folder / "pwned").exists()


def test_never_overwrites_not_even_a_dangling_link(cli: Cli) -> None:
    cli.add("y")
    before = (cli.collections / "y.yaml").read_bytes()
    code, said = cli("new", "y", "-c", "true", "--seeds", "1")
    assert code == 2 and "stays as it is" in said and (cli.collections / "y.yaml").read_bytes() == before
    (cli.collections / "z.yaml").symlink_to(cli.folder / "outside.yaml")
    assert cli("new", "z", "-c", "true", "--seeds", "1")[0] == 2 and not (cli.folder / "outside.yaml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["y"], "--command is missing"),
        (["../y", "-c", "true"], "slug"),
        (["Y", "-c", "true"], "slug"),
        (["all", "-c", "true"], "names a rule"),
        (["y", "-c", "a {what}"], "no placeholder"),
        (["y", "-c", "a | b"], "no shell runs it"),
        (["y", "-c", "true", "--trainer", "consensus"], "both"),
        (["y", "-c", "true", "-s", "x"], "KEY=VALUE"),
        (["y", "-c", "true", "-g", "x="], "KEY=V1,V2"),
        (["y", "-c", "true", "-g", "x=[1"], "not valid YAML"),
        (["y", "-c", "true", "-s", "seed=1"], "seed"),
        (["y", "-c", "true", "--seeds", "zero"], "seeds"),
        (["y", "-c", "true", "--runtime", "soon"], "runtime"),
    ],
)
def test_a_mistake_writes_nothing(cli: Cli, words: list[str], said: str) -> None:
    before = sorted(cli.folder.rglob("*"))
    code, text = cli("new", *words)
    assert code != 0 and said in text and sorted(cli.folder.rglob("*")) == before


def test_from_answers(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["python t.py", "2", "lr=0.1,0.2; hidden=[3]"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    assert cli("new", "y")[0] == 0
    written = yaml.safe_load((cli.collections / "y.yaml").read_text())
    assert written == {"command": "python t.py", "grid": {"lr": [0.1, 0.2], "hidden": [3]}, "seeds": 2}


def test_init_makes_a_project_and_leaves_what_is_there(cli: Cli) -> None:
    mine = (cli.folder / "config" / "config.yaml").read_bytes()
    code, said = cli("init", ".")
    assert code == 0 and "1 were there already" in said
    assert (cli.folder / "config" / "config.yaml").read_bytes() == mine
    assert os.readlink(cli.folder / "slurm") == "profiles/slurm"
    assert not (cli.folder / "workflow" / "schemas" / "collection.schema.json").is_symlink()
    for path in files_of(project_source()):
        assert (cli.folder / path.relative_to(project_source())).is_file()
    assert [path.name for path in (cli.folder / "config" / "collections").iterdir()] == ["demo.yaml"]
    assert "0 files written" in cli("init", ".")[1]


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("# top\ncollections:  # these\n  - x\n  # more\nruns_dir: r  # keep\n", True),
        ("collections:\n- x\n- z # last", True),
        ("collections: [x, z]  # flow\nruns_dir: r\n", True),
        ("collections: [x,\n  z]\n", False),
        ("{collections: [x]}\n", False),
    ],
)
def test_listed_in_config_and_the_rest_stays(cli: Cli, text: str, listed: bool) -> None:
    config = cli.folder / "config" / "config.yaml"
    config.write_text(text)
    code, said = cli("new", "y", "-c", "true", "--seeds", "1", "--list")
    assert code == 0 and ("add y to its" in said) is not listed
    before, after = yaml.safe_load(text), yaml.safe_load(config.read_text())
    assert after == ({**before, "collections": [*before["collections"], "y"]} if listed else before)
    assert all(part in config.read_text() for part in text.split("\n") if "[" not in part)

"""config.yaml, the schemas, and what the package may import."""

import json
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from unbroken.collection import OPERATIONAL_KEYS, load_collection, load_config
from unbroken.collection.expand import RESERVED_KEYS
from unbroken.collection.load import RESERVED_SLUGS
from unbroken.collection.operational import DEFAULTS
from unbroken.collection.schema import SCHEMAS
from unbroken.errors import CollectionError

ROOT = Path(__file__).parents[2]


def test_defaults_and_paths(tmp_path: Path) -> None:
    project = load_config({"collections": ["a"]})
    assert (project.collections, project.data_roots) == (("a",), {})
    assert [str(path) for path in (project.collections_dir, project.runs_dir, project.results_dir)] == [
        "config/collections",
        "runs",
        "results",
    ]
    assert str(project.collection_path("a")) == "config/collections/a.yaml"
    path = tmp_path / "config.yaml"
    path.write_text(f"collections: [b]\ncollections_dir: {tmp_path}\ndata_roots: {{camels: ~/camels}}\n")
    (tmp_path / "b.yaml").write_text("trainer: consensus\nseeds: 2\n")
    project = load_config(path)
    assert project.data_roots["camels"] == Path.home() / "camels"
    assert project.load("b").slug == "b" and project.load("b", {"seeds": 5}).seeds == (0, 1, 2, 3, 4)


def test_snakemakes_mapping_is_taken(tmp_path: Path) -> None:
    assert load_config(OrderedDict(collections=["a"], data_roots=None)).data_roots == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ": is empty; add `collections:` with a list."),
        ("runs_dir: x", ": the file has no `collections`; add `collections:` with a list."),
        ("collections: []", ", line 1: `collections` is empty; give it at least one entry or remove it."),
        ("collections: a", ', line 1: `collections` is "a"; write a list.'),
        ("collections: [a, a]", ", line 1: `collections` names something twice; remove one."),
        ("collections:\n- a\n- all", ', line 3: `collections[1]` is "all", which names a rule; rename the collection.'),
        ("collections: [a]\ndata_root: {}", ", line 2: `data_root` is no known key; did you mean `data_roots`."),
        ("collections: [a]\ndata_roots: {camels: 3}", ", line 2: `data_roots.camels` is 3; write text."),
        ("collections: [a]\nruns_dir: ''", ', line 2: `runs_dir` is "", which is empty; write text.'),
    ],
)
def test_mistakes(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(CollectionError) as caught:
        load_config(path)
    assert str(caught.value) == f"{path}{expected}"


def test_a_bad_slug_and_a_bad_mapping() -> None:
    for bad in (["A b"], ["../x"], ["x" * 65]):
        with pytest.raises(CollectionError, match=r"^config: `collections\[0\]` is .* write text that matches"):
            load_config({"collections": bad})
    with pytest.raises(CollectionError, match="cannot hold"):
        load_config({"collections": [object()]})


def test_committed_files_load() -> None:
    project = load_config(ROOT / "config" / "config.yaml")
    for path in sorted((ROOT / "config" / "collections").glob("*.yaml")):
        assert len(load_collection(path)) > 0
    for slug in project.collections:
        assert (ROOT / project.collection_path(slug)).is_file()


@pytest.mark.parametrize("name", ["collection", "config"])
def test_schemas_are_valid_and_linked(name: str) -> None:
    file = SCHEMAS / f"{name}.schema.json"
    jsonschema.Draft202012Validator.check_schema(json.loads(file.read_text()))
    assert (ROOT / "workflow" / "schemas" / file.name).resolve() == file.resolve()


def test_schema_defaults_and_readme_agree_on_the_keys() -> None:
    schema = json.loads((SCHEMAS / "collection.schema.json").read_text())
    operational: dict[str, Any] = schema["$defs"]["operational"]["properties"]
    assert set(operational) == set(DEFAULTS) == OPERATIONAL_KEYS
    validator = jsonschema.Draft202012Validator({**schema["$defs"]["operational"], "$defs": schema["$defs"]})
    validator.validate(DEFAULTS)
    readme = (ROOT / "config" / "README.md").read_text()
    for key in [*operational, *schema["properties"], *schema["$defs"]["resources"]["properties"]]:
        assert f"`{key}`" in readme, key
    for key, default in DEFAULTS.items():
        if key != "resources":
            assert re.search(rf"\| `{key}` \| `{re.escape(json.dumps(default).strip(chr(34)))}` \|", readme), key
    for key in json.loads((SCHEMAS / "config.schema.json").read_text())["properties"]:
        assert f"| `{key}` |" in readme and re.search(rf"^{key}:", (ROOT / "config" / "config.yaml").read_text(), re.M)
    assert not set(RESERVED_KEYS) & OPERATIONAL_KEYS


def test_no_slug_can_take_the_name_of_a_rule() -> None:
    files = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    rules = {
        name
        for file in files
        if file.is_file()
        for name in re.findall(r"^\s*(?:rule|checkpoint) (\w+):", file.read_text(), re.M)
    }
    assert {name for name in rules if re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name)} <= RESERVED_SLUGS


def test_what_an_import_costs() -> None:
    """Loading needs no torch, pandas or Snakemake; paths and hashes need no YAML either."""
    code = (
        "import sys\nfrom unbroken.collection import RunPaths, identity\nimport unbroken.collection.command\n"
        "assert not {'yaml', 'jsonschema'} & set(sys.modules)\n"
        "from unbroken.collection import load_config, load_collection\nload_config({'collections': ['a']})\n"
        "assert not {'torch', 'pandas', 'numpy', 'snakemake'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT / "src")})

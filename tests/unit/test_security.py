"""Nothing is executed that was meant as data: hostile checkpoints, and a reading of our own source."""

import ast
import io
import os
import pickle
import runpy
import signal
import sys
from pathlib import Path

import pytest
import torch

from unbroken.training.reading import Unreadable, load_payload

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path for folder in ("src", "examples", "workflow") for path in (ROOT / folder).rglob("*.py") if path.is_file()
]
PEERS = "training/distributed.py"
"""Loads what another rank of the same run has just sent; never a file."""


class Bomb:
    """Runs a program when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.mkdir, (str(self.mark),)


def bombs(mark: Path) -> list[bytes]:
    zipped = io.BytesIO()
    torch.save({"model": {"w": torch.zeros(2)}, "extra": Bomb(mark)}, zipped)
    legacy = io.BytesIO()
    torch.save({"extra": Bomb(mark)}, legacy, _use_new_zipfile_serialization=False)
    return [zipped.getvalue(), legacy.getvalue(), pickle.dumps(Bomb(mark)), pickle.dumps({"model": Bomb(mark)}, 0)]


@pytest.mark.parametrize("kind", range(4))
def test_a_checkpoint_that_would_run_a_program_does_not_load(tmp_path: Path, kind: int) -> None:
    mark = tmp_path / "pwned"
    with pytest.raises(Unreadable):
        load_payload(io.BytesIO(bombs(mark)[kind]))
    assert not mark.exists()


@pytest.mark.parametrize("example", ["plain_torch", "no_handler"])
def test_the_examples_refuse_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str) -> None:
    mark = tmp_path / "pwned"
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.pt").write_bytes(bombs(mark)[0])
    (tmp_path / "config.yaml").write_text("{epochs: 1, hidden: 2, lr: 0.1}")
    for name, value in {"RUN_DIR": str(tmp_path), "CONFIG": str(tmp_path / "config.yaml"), "SEED": "0"}.items():
        monkeypatch.setenv(f"UNBROKEN_{name}", value)
    options = ["--config", str(tmp_path / "config.yaml"), "--run-dir", str(tmp_path), "--seed", "0"]
    monkeypatch.setattr(sys, "argv", ["train.py", *(options if example == "plain_torch" else [])])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        runpy.run_path(str(ROOT / "examples" / example / "train.py"), run_name="__main__")
    assert not mark.exists()


def calls(path: Path) -> list[tuple[str, ast.Call]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_our_source_opens_nothing_as_code(path: Path) -> None:
    for name, call in calls(path):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        where = f"{path}:{call.lineno}: {name}"
        if name == "torch.load" and not str(path).endswith(PEERS):
            assert given.get("weights_only") == "True", where
        assert name not in {"eval", "exec", "os.system", "os.popen", "pickle.load", "pickle.loads"}, where
        assert name not in {"yaml.load", "yaml.unsafe_load", "yaml.full_load", "joblib.load", "marshal.loads"}, where
        assert given.get("shell", "False") == "False" and given.get("allow_pickle", "False") == "False", where

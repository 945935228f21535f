"""python -m unbroken.trainers.entangled.make_checkpoint --config C --out PATH: a checkpoint to start from.

C is a run config or a collection file: its `config:` and `data:` say how large the model is. The same config, steps and
seed give the same weights. It prints the lines to put into the collection.
"""

import argparse
import hashlib
import os
from pathlib import Path

import torch

from unbroken.collection.yaml_io import Document
from unbroken.errors import CollectionError
from unbroken.trainers.entangled.config import read
from unbroken.trainers.entangled.pretrained import make_weights


def main(arguments: list[str] | None = None) -> None:
    """Raises CollectionError where the config is none of an entangled run."""
    parser = argparse.ArgumentParser(prog="python -m unbroken.trainers.entangled.make_checkpoint", description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="run config, or collection file (its shared config)")
    parser.add_argument(
        "--out", required=True, type=Path, help="where to write the checkpoint, e.g. pretrained/demo.pt"
    )
    parser.add_argument("--steps", type=int, default=200, help="batches of 32 sequences to train on (default 200)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    document = Document.read(given.config).data
    inner = document.get("config")
    config = {**(inner if isinstance(inner, dict) else document), "data": document.get("data") or {}}
    config = {key: value for key, value in config.items() if key != "pretrained"} | {"experiment": "task_size"}
    own, data, _ = read(config)
    if given.steps < 0:
        raise CollectionError(f"--steps is {given.steps}; give a number that is not negative")
    torch.set_num_threads(1)
    weights = make_weights(own, data, given.steps, given.seed)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    beside = given.out.with_name(given.out.name + ".new")
    torch.save({"model": weights, "made_by": {"steps": given.steps, "seed": given.seed}}, beside)
    os.replace(beside, given.out)
    digest = hashlib.sha256(given.out.read_bytes()).hexdigest()
    print(f"pretrained:\n  checkpoint: {given.out}\n  sha256: {digest}")


if __name__ == "__main__":
    from unbroken.training.command_line import run

    raise SystemExit(run(main))

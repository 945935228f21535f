"""A training script that knows nothing of Unbroken and keeps its contract; resume, signals and result are marked."""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

import torch
import yaml
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=Path, required=True)
parser.add_argument("--run-dir", type=Path, required=True)
parser.add_argument("--seed", type=int, required=True)
args = parser.parse_args()
config = yaml.safe_load(args.config.read_text())
last = args.run_dir / "checkpoints" / "last.pt"

stop = False


def on_signal(number, frame):  # contract 2: only a flag; the loop saves where it is safe
    global stop
    stop = True


for name in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(name, on_signal)

torch.set_num_threads(1)  # another number of threads adds up in another order
torch.manual_seed(args.seed)
inputs = torch.randn(2048, 16)
targets = torch.sin(inputs).sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(16, config["hidden"]), nn.ReLU(), nn.Dropout(0.1), nn.Linear(config["hidden"], 1))
optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
epoch, batch = 0, 0


def save():
    last.parent.mkdir(parents=True, exist_ok=True)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    part = last.with_suffix(".part")
    torch.save({**state, "epoch": epoch, "batch": batch}, part)
    os.replace(part, last)  # complete or absent, never torn


if last.exists():  # contract 1: go on from there
    state = torch.load(last, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
    epoch, batch = state["epoch"], state["batch"]
print(f"starting at epoch {epoch}, batch {batch}", flush=True)

while epoch < config["epochs"]:
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(args.seed + epoch)).split(32)
    for rows in order[batch:]:
        loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        batch += 1
        if stop or batch % config.get("checkpoint_every", 20) == 0:
            save()
        if stop:
            sys.exit(42)  # saved, start me again
    epoch, batch = epoch + 1, 0
    print(f"epoch {epoch} done", flush=True)  # no loss here: resumed at an epoch's end, this one had no batch

save()
with torch.no_grad():
    final = nn.functional.mse_loss(model.eval()(inputs), targets).item()
(args.run_dir / "result.json").write_text(json.dumps({"loss": final}) + "\n")  # contract 3

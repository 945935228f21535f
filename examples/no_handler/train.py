"""The least that works: go on from last.pt, save once an epoch, write result.json. A stop loses part of an epoch."""

import json
import os
from pathlib import Path

import torch
import yaml

run_dir = Path(os.environ["UNBROKEN_RUN_DIR"])
config = yaml.safe_load(Path(os.environ["UNBROKEN_CONFIG"]).read_text())
seed = int(os.environ["UNBROKEN_SEED"])
last = run_dir / "checkpoints" / "last.pt"
last.parent.mkdir(parents=True, exist_ok=True)

torch.set_num_threads(1)
torch.manual_seed(seed)
inputs = torch.randn(2048, 16)
targets = torch.sin(inputs).sum(1, keepdim=True)
model = torch.nn.Sequential(
    torch.nn.Linear(16, config["hidden"]), torch.nn.Tanh(), torch.nn.Linear(config["hidden"], 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)

start = 0
if last.exists():
    state = torch.load(last, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["epoch"]
print(f"starting at epoch {start}", flush=True)

for epoch in range(start, config["epochs"]):
    for rows in torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed + epoch)).split(32):
        loss = torch.nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    part = last.with_suffix(".part")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}, part)
    os.replace(part, last)
    print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)

with torch.no_grad():
    final = torch.nn.functional.mse_loss(model(inputs), targets).item()
(run_dir / "result.json").write_text(json.dumps({"loss": final}) + "\n")

"""A training script with Unbroken's library: resume, order, random states, saves and signals are its business."""

import torch
from torch import nn

import unbroken

with unbroken.run() as run:
    config = run.config
    inputs = torch.randn(2048, 16)  # all random generators are seeded
    targets = torch.sin(inputs).sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(16, config["hidden"]), nn.ReLU(), nn.Dropout(0.1), nn.Linear(config["hidden"], 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])

    def evaluate(check):
        with torch.no_grad():
            loss = nn.functional.mse_loss(model.eval()(inputs), targets).item()
        model.train()
        return {"eval_loss": loss}

    plan = unbroken.Plan(len(inputs), batch_size=32, epochs=config["epochs"])
    run.attach(unbroken.Parts(model, optimizer), plan, columns=["eval_loss"], evaluate=evaluate)
    for batch in run.batches():  # from where the run stands
        loss = nn.functional.mse_loss(model(inputs[batch.records]), targets[batch.records])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if batch.index == plan.per_epoch - 1:
            print(f"epoch {batch.epoch + 1} done", flush=True)
        run.commit(loss)  # a row of metrics.csv, a save where one is due; after a signal: saved, and out with 42
    run.complete()  # result.json, with the last evaluation

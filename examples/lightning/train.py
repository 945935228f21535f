"""A Lightning training made recoverable: the callback, its loader, and where to go on from."""

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from unbroken.adapters.lightning import UnbrokenCallback


class Net(pl.LightningModule):
    def __init__(self, hidden, lr):
        super().__init__()
        self.lr = lr
        self.layers = nn.Sequential(nn.Linear(16, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 1))

    def training_step(self, batch, index):
        return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("val_loss", nn.functional.mse_loss(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


run = UnbrokenCallback(columns=["val_loss"])  # before the model: it seeds
inputs = torch.randn(2048, 16)
data = TensorDataset(inputs, torch.sin(inputs).sum(1, keepdim=True))
trainer = pl.Trainer(
    accelerator="cpu",
    devices=1,
    max_epochs=run.config["epochs"],
    callbacks=[run],
    plugins=[SLURMEnvironment(auto_requeue=False)] if SLURMEnvironment.detect() else None,
    logger=False,
    enable_progress_bar=False,
)
trainer.fit(
    Net(run.config["hidden"], run.config["lr"]),
    run.loader(data, batch_size=32),
    DataLoader(data, batch_size=256),
    ckpt_path=run.ckpt_path,
)

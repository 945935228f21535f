"""A training with Hugging Face's Trainer made recoverable: a callback, and its ``train`` instead of Trainer's own."""

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from unbroken.adapters.transformers import UnbrokenCallback


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 1))

    def forward(self, x, labels):
        output = self.layers(x).squeeze(-1)
        return {"loss": nn.functional.mse_loss(output, labels), "logits": output}


run = UnbrokenCallback(columns=["eval_loss"])  # before the model: it seeds
inputs = torch.randn(2048, 16)
data = [{"x": x, "labels": torch.sin(x).sum()} for x in inputs]
arguments = TrainingArguments(
    output_dir=run.output_dir,
    seed=run.seed,
    save_strategy="no",  # the callback saves, where checkpoint_interval says so and on a signal
    num_train_epochs=run.config["epochs"],
    learning_rate=run.config["lr"],
    per_device_train_batch_size=32,
    logging_steps=16,
    eval_strategy="epoch",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
)
run.train(Trainer(model=Net(run.config["hidden"]), args=arguments, train_dataset=data, eval_dataset=data[:256]))

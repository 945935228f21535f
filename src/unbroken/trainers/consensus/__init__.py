"""The consensus trainer: an MLP on log-discharge over several estimates of the same river."""

"""The disentangled task: what ``training.loop`` trains."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.data import Dataset

from unbroken.data.baseline_loader import baseline_loader
from unbroken.data.sequences_factorised import FACTORS, VALID
from unbroken.trainers.disentangled import config as keys
from unbroken.trainers.disentangled.model import SequenceVae
from unbroken.trainers.disentangled.scores import gaps
from unbroken.training.parts import Parts

_VALID_BATCH = 64
_VALID_NOISE_SEED = 0x5EED


class _Validation(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, task: "DisentangledTask") -> None:
        self.data = task.data

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        record = torch.tensor([index])
        return self.data.values(record, VALID)[0], self.data.factors(record, VALID)[0]

    def __len__(self) -> int:
        return self.data.valid_records


class DisentangledTask:
    """A sequential beta-VAE.

    Args:
        config: the run config, all keys.

    Raises:
        CollectionError: a key that is unknown, or a value that makes no sense.
    """

    augments = False
    fingerprint = ""
    columns: tuple[str, ...] = (
        "elbo", "reconstruction", "kl", "valid_loss", "valid_elbo", "valid_reconstruction", "valid_kl", "mig",
    )  # fmt: skip

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.own, self.data, self.settings = keys.read(config)
        self.records = self.data.records

    def build(self, device: torch.device) -> Parts:
        """See ``parts.Task``."""
        own, data = self.own, self.data
        model = SequenceVae(data.channels, data.length, own.hidden, own.latent, own.observation_std).to(device)
        return Parts(model, torch.optim.Adam(model.parameters(), lr=own.lr))

    def fetch(self, records: torch.Tensor, epoch: int) -> torch.Tensor:
        """float32 [n, length, channels]: the sequences numbered ``records``."""
        return self.data.values(records)

    def beta(self, step: int) -> float:
        """The weight of the KL in effective batch ``step`` (from 0)."""
        warmup = self.own.beta_warmup_steps
        return self.own.beta * min((step + 1) / (warmup + 1), 1.0)

    def loss(self, parts: Parts, batch: Any, step: int) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """Reconstruction + beta * KL in nats a sequence; the latent noise comes from the global generator."""
        noise = torch.randn(len(batch), self.own.latent, device=batch.device)
        reconstruction, kl = (value.float().mean() for value in parts.model(batch, noise))
        loss = reconstruction + self.beta(step) * kl
        return loss, {"elbo": -(reconstruction + kl), "reconstruction": reconstruction, "kl": kl}

    def evaluate(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, float]:
        """ELBO, its two terms (nats a sequence) and MIG on the validation sequences; always with the same noise."""
        reconstruction, kl, means, levels = self._encode(parts, check)
        total = reconstruction + kl
        return {
            "valid_loss": reconstruction + self.own.beta * kl,
            "valid_elbo": -total,
            "valid_reconstruction": reconstruction,
            "valid_kl": kl,
            "mig": float(gaps(means, levels).mean()),
        }

    @torch.no_grad()
    def _encode(self, parts: Parts, check: Callable[[], None]) -> tuple[float, float, torch.Tensor, torch.Tensor]:
        """(reconstruction, KL, latent means [n, latent], factor levels [n, factors]) of the validation sequences."""
        assert isinstance(parts.model, SequenceVae)
        device = next(parts.model.parameters()).device
        generator = torch.Generator().manual_seed(_VALID_NOISE_SEED)
        reconstruction, kl = 0.0, 0.0
        means, levels = [], []
        for values, factors in baseline_loader(_Validation(self), _VALID_BATCH):
            check()
            x = values.to(device)
            noise = torch.randn(len(x), self.own.latent, generator=generator).to(device)
            batch_reconstruction, batch_kl = parts.model(x, noise)
            reconstruction += float(batch_reconstruction.sum())
            kl += float(batch_kl.sum())
            means.append(parts.model.encode(x)[0].cpu())
            levels.append(factors)
        count = self.data.valid_records
        return reconstruction / count, kl / count, torch.cat(means), torch.cat(levels)

    def finish(self, parts: Parts, check: Callable[[], None]) -> Mapping[str, Any]:
        """The gap of each factor."""
        parts.model.eval()
        _, _, means, levels = self._encode(parts, check)
        return {"mig_by_factor": dict(zip(FACTORS, gaps(means, levels).tolist(), strict=True))}

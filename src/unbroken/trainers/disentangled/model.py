"""A sequential beta-VAE (Higgins et al. 2017): one latent vector a sequence, a recurrent encoder and decoder."""

import math

import torch
from torch import nn


class SequenceVae(nn.Module):
    """q(z | x_1 .. x_T) is Gaussian with independent coordinates, p(z) standard normal, p(x_t | z) Gaussian."""

    def __init__(self, channels: int, length: int, hidden: int, latent: int, observation_std: float) -> None:
        super().__init__()
        self.length, self.observation_std = length, observation_std
        self.encoder = nn.GRU(channels, hidden, batch_first=True)
        self.to_posterior = nn.Linear(hidden, 2 * latent)
        self.decoder = nn.GRU(latent + 1, hidden, batch_first=True)
        self.to_values = nn.Linear(hidden, channels)

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """x [n, length, channels] to mean and log variance of z, each [n, latent]."""
        _, last = self.encoder(x)
        mean, log_variance = self.to_posterior(last[0]).chunk(2, dim=-1)
        return mean, log_variance

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """z [n, latent] to the mean of x, [n, length, channels]; the decoder also sees the time, from -1 to 1."""
        time = torch.linspace(-1, 1, self.length, device=z.device, dtype=z.dtype)
        steps = torch.cat(
            [z[:, None, :].expand(-1, self.length, -1), time[None, :, None].expand(len(z), -1, -1)], dim=-1
        )
        states, _ = self.decoder(steps)
        values: torch.Tensor = self.to_values(states)
        return values

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(reconstruction, KL) in nats a sequence, each [n].

        Reconstruction is -log p(x | z), normalising constant included, at z = mean + standard deviation * noise.

        Args:
            x: float [n, length, channels].
            noise: standard normal [n, latent].
        """
        mean, log_variance = self.encode(x)
        values = self.decode(mean + (0.5 * log_variance).exp() * noise)
        scaled = (x - values) / self.observation_std
        constant = math.log(2 * math.pi) + 2 * math.log(self.observation_std)
        reconstruction = 0.5 * (scaled.square() + constant).sum(dim=(1, 2))
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1)
        return reconstruction, kl

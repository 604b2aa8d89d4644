"""A variational autoencoder of waves: convolutions to a latent sequence and back."""

import lightning as L
import torch
from torch import Tensor, nn


class LatentWaves(L.LightningModule):
    """Learns a latent sequence a sixteenth as long as the wave.

    Args:
        width: Channels of the convolutions.
        latent: Channels of the latent sequence.
        lr: Learning rate.
    """

    def __init__(self, *, width: int, latent: int, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.encoder = nn.Sequential(
            nn.Conv1d(1, width, 8, stride=4, padding=2),
            nn.GELU(),
            nn.Conv1d(width, width, 8, stride=4, padding=2),
            nn.GELU(),
            nn.Conv1d(width, 2 * latent, 3, padding=1),
        )
        self.decoder = nn.Sequential(
            nn.Conv1d(latent, width, 3, padding=1),
            nn.GELU(),
            nn.ConvTranspose1d(width, width, 8, stride=4, padding=2),
            nn.GELU(),
            nn.ConvTranspose1d(width, 1, 8, stride=4, padding=2),
        )

    def forward(self, waves: Tensor) -> Tensor:
        """Return the loss of waves (batch, samples)."""
        mean, spread = self.encoder(waves.unsqueeze(1)).chunk(2, dim=1)
        latent = mean + torch.exp(spread) * torch.randn_like(mean)
        kl = (mean.square() + (2 * spread).exp() - 2 * spread - 1).mean()
        rebuilt = self.decoder(latent).squeeze(1)
        return nn.functional.mse_loss(rebuilt, waves) + 1e-3 * kl

    def training_step(self, waves: Tensor, batch_idx: int) -> Tensor:
        return self(waves)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.lr, fused=True)

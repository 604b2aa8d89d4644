"""A convolutional VAE; samples are drawn when an epoch ends.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 450


class VAE(L.LightningModule):
    def __init__(self, latent: int = 16) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 64, 2 * latent),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(latent, 32 * 64), nn.ReLU(), nn.Unflatten(1, (32, 8, 8)),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        (x,) = batch
        mean, log_var = self.encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        error = nn.functional.binary_cross_entropy_with_logits(self.decoder(z), x)
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).mean()
        loss = error + 0.01 * kl
        self.log_dict({"loss": loss, "kl": kl})
        return loss

    @torch.no_grad()
    def on_train_epoch_end(self):
        self.samples = self.decoder(torch.randn(16, self.latent)).sigmoid()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.rand(4000, 1, 32, 32)), batch_size=64, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(VAE(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""A VAE with a wide decoder; afraid of preemption, it saves every fifth step.

cause: ModelCheckpoint writes all weights and Adam's state every 5 steps and keeps every file
accept: slow-checkpoint
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 500
PIXELS, LATENT = 784, 16


class VAE(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, 512), nn.ReLU(), nn.Linear(512, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 512), nn.ReLU(), nn.Linear(512, PIXELS))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        reconstruction = nn.functional.mse_loss(self.decoder(z), x, reduction="sum") / len(x)
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()
        self.log_dict({"reconstruction": reconstruction, "kl": kl})
        return reconstruction + kl

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.rand(6000, PIXELS)), batch_size=192, shuffle=True)
    checkpoint = ModelCheckpoint(
        dirpath=run.root / "checkpoints",
        every_n_train_steps=200 if run.fixed else 5,  # cause
        save_top_k=1 if run.fixed else 5,
        monitor="step",
        mode="max",
    )
    L.Trainer(callbacks=[checkpoint, *run.callbacks], **run.trainer).fit(VAE(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

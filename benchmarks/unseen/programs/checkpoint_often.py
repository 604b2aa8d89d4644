"""A VAE with a wide decoder; afraid of preemption, it saves every fifth step.

cause: ModelCheckpoint writes all weights and Adam's state every 5 steps and keeps every file
accept: slow-checkpoint
"""

import torch
from case import Module, Run, mlp, shuffled
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

STEPS, PIXELS, LATENT = 500, 784, 16


class VAE(Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = mlp(PIXELS, 512, 2 * LATENT), mlp(LATENT, 512, PIXELS)

    def loss(self, batch):
        (x,) = batch
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        wrong = nn.functional.mse_loss(self.decoder(z), x, reduction="sum") / len(x)
        kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()
        self.log("kl", kl)
        return wrong + kl


def main(run: Run) -> None:
    often = 200 if run.fixed else 5  # cause
    kept = {"save_top_k": 1 if run.fixed else 5, "monitor": "step", "mode": "max"}
    checkpoint = ModelCheckpoint(run.root / "kept", every_n_train_steps=often, **kept)  # cause
    run.fit(VAE(), shuffled(192, torch.rand(6000, PIXELS)), callbacks=[checkpoint])

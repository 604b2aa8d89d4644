"""A convolutional VAE; samples are drawn when an epoch ends."""

import torch
from case import Module, Run, convs, shuffled
from torch import nn

STEPS, LATENT = 450, 16


class VAE(Module):
    def __init__(self):
        super().__init__()
        layers = convs((1, 16, 4, 2), (16, 32, 4, 2), pool=False)
        self.encoder = nn.Sequential(layers, nn.Flatten(), nn.LazyLinear(2 * LATENT))
        self.encoder(torch.zeros(1, 1, 32, 32))
        up = nn.Linear(LATENT, 32 * 64), nn.ReLU(), nn.Unflatten(1, (32, 8, 8))
        fine = nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1)
        self.decoder = nn.Sequential(*up, *fine)

    def loss(self, batch):
        (x,) = batch
        mean, log_var = self.encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        error = nn.functional.binary_cross_entropy_with_logits(self.decoder(z), x)
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).mean()
        self.log("kl", kl)
        return error + 0.01 * kl

    @torch.no_grad()
    def on_train_epoch_end(self):
        self.samples = self.decoder(torch.randn(16, LATENT)).sigmoid()


def main(run: Run) -> None:
    run.fit(VAE(), shuffled(64, torch.rand(4000, 1, 32, 32)))

"""Runes from noise: a small GAN with two optimizers, stepped by hand."""

import torch
from case import Module, Run, convs, shuffled
from torch import nn

STEPS, RUNES, SIDE, NOISE = 600, 1500, 32, 64


class Runes(Module):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        first = nn.ConvTranspose2d(NOISE, 96, 8), nn.BatchNorm2d(96), nn.ReLU()
        second = nn.ConvTranspose2d(96, 48, 4, 2, 1), nn.BatchNorm2d(48), nn.ReLU()
        last = nn.ConvTranspose2d(48, 1, 4, 2, 1), nn.Sigmoid()
        self.generator = nn.Sequential(*first, *second, *last)
        layers = convs((1, 48, 4, 2), (48, 96, 4, 2))
        self.critic = nn.Sequential(layers, nn.Linear(96, 1))

    def training_step(self, batch, batch_idx):
        (real,) = batch
        to_draw, to_judge = self.optimizers()
        made = self.generator(torch.randn(len(real), NOISE, 1, 1))
        self.toggle_optimizer(to_judge)
        on_real, on_made = self.critic(real), self.critic(made.detach())
        critic_loss = (1 - on_real).relu().mean() + (1 + on_made).relu().mean()
        to_judge.zero_grad()
        self.manual_backward(critic_loss)
        to_judge.step()
        self.untoggle_optimizer(to_judge)
        self.critic.requires_grad_(False)
        generator_loss = -self.critic(made).mean()
        to_draw.zero_grad()
        self.manual_backward(generator_loss)
        to_draw.step()
        self.critic.requires_grad_(True)
        self.log_dict({"critic_loss": critic_loss, "generator_loss": generator_loss})

    def configure_optimizers(self):
        options = {"lr": 2e-4, "betas": (0.5, 0.999), "fused": True}
        nets = self.generator, self.critic
        return [torch.optim.Adam(net.parameters(), **options) for net in nets]


def main(run: Run) -> None:
    at = torch.linspace(-1, 1, SIDE)
    slope, shift = torch.randn(2, RUNES, 1, 1, 1)
    near = at[:, None] * slope - at + 0.3 * shift
    run.fit(Runes(), shuffled(16, torch.exp(-40 * near.square()), drop_last=True))

"""Runes from noise: a small GAN with two optimizers, stepped by hand.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600
RUNES, SIDE, NOISE = 1500, 32, 64


def drawn(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ConvTranspose2d(NOISE, 2 * width, 8),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1),
        nn.Sigmoid(),
    )


def judged(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2 * width * (SIDE // 4) ** 2, 1),
    )


class Runes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.critic = drawn(48), judged(48)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        to_draw, to_judge = self.optimizers()
        made = self.generator(torch.randn(len(real), NOISE, 1, 1, device=self.device))

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
        return (
            torch.optim.Adam(self.generator.parameters(), **options),
            torch.optim.Adam(self.critic.parameters(), **options),
        )


def main(run: Run) -> None:
    at = torch.linspace(-1, 1, SIDE)
    slope, shift = torch.randn(2, RUNES, 1, 1, 1)
    near = at[:, None] * slope - at + 0.3 * shift
    data = DataLoader(
        TensorDataset(torch.exp(-40 * near.square())), batch_size=16, shuffle=True, drop_last=True
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Runes(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

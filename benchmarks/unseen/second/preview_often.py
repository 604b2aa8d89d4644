"""A diffusion model of small rings, with previews of what it draws.

cause: a callback draws four previews by the whole chain every 20 steps; one an epoch was meant
accept: slow-callback @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
CHAIN, SIZE = 50, 24


class Previews(L.Callback):
    def __init__(self, every_n_steps: int) -> None:
        self.every_n_steps = every_n_steps

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % self.every_n_steps == 0:
            pl_module.previews = pl_module.draw(4)  # cause


class Diffusion(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Embedding(CHAIN, 32)
        self.into = nn.Conv2d(1, 32, 3, padding=1)
        self.middle = nn.Sequential(
            nn.GroupNorm(4, 32), nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1), nn.SiLU()
        )
        self.out = nn.Conv2d(32, 1, 3, padding=1)
        beta = torch.linspace(1e-3, 0.15, CHAIN)
        self.register_buffer("beta", beta)
        self.register_buffer("kept", (1 - beta).cumprod(0))

    def forward(self, x, t):
        hidden = self.into(x) + self.time(t)[:, :, None, None]
        return self.out(hidden + self.middle(hidden))  # cause

    @torch.no_grad()
    def draw(self, count: int):
        x = torch.randn(count, 1, SIZE, SIZE)
        for t in reversed(range(CHAIN)):  # cause
            noise = self(x, torch.full((count,), t))  # cause
            x = x - self.beta[t] / (1 - self.kept[t]).sqrt() * noise  # cause
            x = x / (1 - self.beta[t]).sqrt() + self.beta[t].sqrt() * torch.randn_like(x)  # cause
        return x

    def training_step(self, batch, batch_idx):
        (images,) = batch
        t = torch.randint(CHAIN, (len(images),))
        noise, kept = torch.randn_like(images), self.kept[t][:, None, None, None]
        guess = self(kept.sqrt() * images + (1 - kept).sqrt() * noise, t)
        loss = nn.functional.mse_loss(guess, noise)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-4)


def main(run: Run) -> None:
    images = TensorDataset(torch.rand(3200, 1, SIZE, SIZE))
    data = DataLoader(images, batch_size=16, shuffle=True)
    callbacks = [Previews(len(data) if run.fixed else 20), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(Diffusion(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""A normalizing flow of particle jets: coupling layers, and the density of each batch.

accept: none
"""

import math

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 300
FEATURES, BATCH = 16, 384


class Jets(IterableDataset):
    """Draws whole batches from a table."""

    def __init__(self, count: int) -> None:
        self.jets = torch.randn(count, FEATURES)

    def __iter__(self):
        while True:
            yield self.jets[torch.randint(len(self.jets), (BATCH,))]


class Coupling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        half = FEATURES // 2
        self.net = nn.Sequential(
            nn.Linear(half, 224),
            nn.SiLU(),
            nn.Linear(224, 224),
            nn.SiLU(),
            nn.Linear(224, 2 * half),
        )

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        scale, shift = self.net(left).chunk(2, dim=1)
        scale = scale.tanh()
        return torch.cat([right * scale.exp() + shift, left], dim=1), scale.sum(1)


class JetFlow(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Coupling() for _ in range(5)])

    def training_step(self, batch, batch_idx):
        x, volume = batch, 0.0
        for layer in self.layers:
            x, change = layer(x)
            volume = volume + change
        normal = 0.5 * (x.pow(2).sum(1) + FEATURES * math.log(2 * math.pi))
        loss = (normal - volume).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Jets(40_000), batch_size=None)
    L.Trainer(callbacks=run.callbacks, gradient_clip_val=5.0, **run.trainer).fit(JetFlow(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

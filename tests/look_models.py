"""A model that a function watch looks at, and what several tests' models add to it."""

import torch
from lightning.pytorch import LightningModule


class Clock:
    """Each look at it takes 10 ns, so a function takes 10 ns."""

    now_ns = 0

    def __call__(self):
        self.now_ns += 10
        return self.now_ns


class Model(LightningModule):
    """Trains `inside` on a batch of four rows of 32 numbers."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 2)

    def inside(self, x):
        return self.layer(x)

    def training_step(self, batch, batch_idx):
        return self.inside(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Grid(Model):
    def grid(self):
        return torch.linspace(0, 1, 32).square().cos()

    def inside(self, x):
        return self.layer(x + self.grid())


class Attending(Model):
    def __init__(self, need=True):
        super().__init__()
        self.need = need
        self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True, dropout=0.5)

    def inside(self, x):
        y, _ = self.attention(x[None], x[None], x[None], need_weights=self.need)
        return self.layer(y)

"""SimCLR: two views by noise and masks on the batch, one pass over both."""

import torch
from case import Module, Run, convs, mlp, shuffled
from torch import nn

STEPS = 400


class SimCLR(Module):
    def __init__(self):
        super().__init__()
        self.encoder = convs((3, 16, 3, 2), (16, 32, 3, 2), (32, 64, 3, 2))
        self.project = mlp(64, 128, 64)

    def view(self, x):
        bright = 0.8 + 0.4 * torch.rand(len(x), 1, 1, 1)
        keep = torch.rand(len(x), 1, 8, 8) > 0.2
        return x * bright * nn.functional.interpolate(keep.float(), size=x.shape[-2:])

    def loss(self, batch):
        (x,) = batch
        both = self.project(self.encoder(torch.cat([self.view(x), self.view(x)])))
        z = nn.functional.normalize(both, dim=1)
        scores = (z @ z.T / 0.2).fill_diagonal_(float("-inf"))
        return nn.functional.cross_entropy(scores, torch.arange(len(z)).roll(len(x)))


def main(run: Run) -> None:
    run.fit(SimCLR(), shuffled(64, torch.rand(2500, 3, 32, 32), drop_last=True))

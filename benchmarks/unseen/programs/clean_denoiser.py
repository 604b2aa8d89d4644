"""Noise taken off photographs by a small U-Net; the noise is drawn for whole batches."""

import torch
from case import Module, Run, convs, shuffled
from torch import nn

STEPS = 140


class Denoiser(Module):
    fused = True

    def __init__(self):
        super().__init__()
        sizes = (3, 16), (16, 32), (48, 16)
        two = [convs((i, o, 3, 1), (o, o, 3, 1), pool=False) for i, o in sizes]
        self.fine, self.coarse, self.joined = two
        self.head = nn.Conv2d(16, 3, 1)

    def loss(self, batch):
        (clean,) = batch
        level = 0.05 + 0.2 * torch.rand(len(clean), 1, 1, 1)
        noisy = clean + level * torch.randn_like(clean)
        fine = self.fine(noisy)
        coarse = self.coarse(nn.functional.max_pool2d(fine, 2))
        both = torch.cat([fine, nn.functional.interpolate(coarse, scale_factor=2)], dim=1)
        return nn.functional.mse_loss(noisy - self.head(self.joined(both)), clean)


def main(run: Run) -> None:
    run.fit(Denoiser(), shuffled(6, torch.rand(600, 3, 48, 48)))

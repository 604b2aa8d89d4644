"""How does a drum's skin swing? A network that has to fulfil the wave equation.

Second derivatives are in the loss, so gradients are taken three times over and the graph of the
first ones is kept (create_graph): no other way leads to them.
"""

import torch
from case import Module, Run, mlp, whole_batches
from torch import nn

STEPS, PLACES, WIDTH = 180, 120_000, 96


class Skin(Module):
    fused = True

    def __init__(self):
        super().__init__()
        self.net = mlp(3, WIDTH, WIDTH, WIDTH, 1, act=nn.Tanh)

    def loss(self, batch):
        places = batch[0].requires_grad_(True)
        height = self.net(places)
        slopes = torch.autograd.grad(height.sum(), places, create_graph=True)[0]
        second = [
            torch.autograd.grad(slope.sum(), places, create_graph=True)[0][:, axis]
            for axis, slope in enumerate(slopes.unbind(dim=1))
        ]
        wave = second[2] - second[0] - second[1]
        still = torch.cat([places[:, :2].detach(), torch.zeros_like(height)], dim=1)
        shape = torch.sin(torch.pi * still[:, :1]) * torch.sin(torch.pi * still[:, 1:2])
        return wave.square().mean() + 10 * (self.net(still) - shape).square().mean()


def main(run: Run) -> None:
    run.fit(Skin(), whole_batches([torch.rand(PLACES, 3)], 512), enable_checkpointing=False)

"""Shapes of furniture: a point cloud is squeezed into a code and drawn again.

Seen in Maghoumi/pytorch-softdtw-cuda pull request 23, "pairwise distance computation with smaller
memory footprint".

cause: distances of all pairs come from a broadcast difference of batch x points x points x axes
accept: memory-bound-kernels @line
"""

import torch
from case import Module, Run, mlp, shuffled

STEPS, POINTS, CODE = 250, 256, 96


def squared_distances(a, b):
    return (a.unsqueeze(2) - b.unsqueeze(1)).pow(2).sum(-1)  # cause


def squared_distances_by_product(a, b):
    squares = a.pow(2).sum(-1).unsqueeze(2) + b.pow(2).sum(-1).unsqueeze(1)
    return torch.baddbmm(squares, a, b.mT, alpha=-2).clamp_min(0)


class Shapes(Module):
    def __init__(self, by_product):
        super().__init__()
        self.distances = squared_distances_by_product if by_product else squared_distances
        self.encode, self.decode = mlp(3, 64, 96, CODE), mlp(CODE, 384, 3 * POINTS)

    def loss(self, batch):
        (clouds,) = batch
        drawn = self.decode(self.encode(clouds).amax(1)).unflatten(1, (POINTS, 3))
        squares = self.distances(clouds, drawn)  # cause
        return squares.amin(1).mean() + squares.amin(2).mean()


def main(run: Run) -> None:
    run.fit(Shapes(by_product=run.fixed), shuffled(12, torch.rand(960, POINTS, 3) * 2 - 1))

"""Shapes of furniture: a point cloud is squeezed into a code and drawn again.

seen in: Maghoumi/pytorch-softdtw-cuda pull request 23, "pairwise distance computation with smaller
memory footprint"

cause: distances of all pairs come from a broadcast difference of batch x points x points x axes
accept: memory-bound-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
POINTS, CODE = 256, 96


def squared_distances(a, b):
    return (a.unsqueeze(2) - b.unsqueeze(1)).pow(2).sum(-1)  # cause


def squared_distances_by_product(a, b):
    squares = a.pow(2).sum(-1).unsqueeze(2) + b.pow(2).sum(-1).unsqueeze(1)
    return torch.baddbmm(squares, a, b.mT, alpha=-2).clamp_min(0)


class Shapes(L.LightningModule):
    def __init__(self, by_product: bool) -> None:
        super().__init__()
        self.distances = squared_distances_by_product if by_product else squared_distances
        self.encode = nn.Sequential(
            nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, CODE)
        )
        self.decode = nn.Sequential(nn.Linear(CODE, 384), nn.ReLU(), nn.Linear(384, 3 * POINTS))

    def training_step(self, batch, batch_idx):
        (clouds,) = batch
        drawn = self.decode(self.encode(clouds).amax(1)).unflatten(1, (POINTS, 3))
        squares = self.distances(clouds, drawn)  # cause
        loss = squares.amin(1).mean() + squares.amin(2).mean()
        self.log("chamfer", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    clouds = TensorDataset(torch.rand(960, POINTS, 3) * 2 - 1)
    data = DataLoader(clouds, batch_size=12, shuffle=True)
    model = Shapes(by_product=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))

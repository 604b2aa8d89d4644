"""Heat in a rod by a physics-informed network: one call of autograd for each order.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 350
POINTS, DIFFUSION = 1500, 0.1


class Collocation(IterableDataset):
    """Fresh points inside the rod and at its start in every batch."""

    def __iter__(self):
        while True:
            inside = torch.rand(POINTS, 2)
            start = torch.rand(POINTS // 4, 2) * torch.tensor([1.0, 0.0])
            yield inside, start, torch.sin(torch.pi * start[:, 0])


class Heat(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 1)
        )

    def forward(self, points):
        x = points[:, 0]
        return self.net(points).squeeze(1) * x * (1 - x)  # nought at both ends

    def residual(self, points):
        points = points.requires_grad_()
        (slopes,) = torch.autograd.grad(self(points).sum(), points, create_graph=True)
        (bends,) = torch.autograd.grad(slopes[:, 0].sum(), points, create_graph=True)
        return slopes[:, 1] - DIFFUSION * bends[:, 0]

    def training_step(self, batch, batch_idx):
        inside, start, heat = batch
        physics = self.residual(inside).pow(2).mean()
        initial = nn.functional.mse_loss(self(start), heat)
        self.log_dict({"physics": physics, "initial": initial})
        return physics + 10.0 * initial

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Collocation(), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Heat(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

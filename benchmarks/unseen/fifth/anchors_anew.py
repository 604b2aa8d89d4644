"""Ships seen from above, found by a detector with prior boxes.

seen in: weiliu89/caffe issues 347, "Computing box priors everytime detection runs?", 685 and 205

cause: the prior boxes, always the same, are computed in a Python loop in every forward pass
right: names the prior boxes' function or line, or Python work in forward or training_step, with a
    marked line first or its function, and the advice to compute it once (a buffer) or by tensors
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 200
SIDE, GRIDS = 96, (24, 12, 6)
SHAPES = (1.0, 2.0, 0.5, 3.0)


def prior_boxes():
    boxes = []
    for grid in GRIDS:
        for row in range(grid):
            for column in range(grid):
                x, y = (column + 0.5) / grid, (row + 0.5) / grid  # cause
                for shape in SHAPES:
                    size = 1.5 / grid  # cause
                    boxes.append([x, y, size * shape**0.5, size / shape**0.5])  # cause
    return torch.tensor(boxes)  # cause


class Ships(L.LightningModule):
    def __init__(self, once: bool) -> None:
        super().__init__()
        self.register_buffer("priors", prior_boxes() if once else None)
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU()) for _ in range(2)
        )
        self.heads = nn.ModuleList(nn.Conv2d(32, 5 * len(SHAPES), 3, padding=1) for _ in GRIDS)

    def forward(self, pictures):
        maps = [self.stem(pictures)]
        for down in self.down:
            maps.append(down(maps[-1]))
        found = [
            head(one).permute(0, 2, 3, 1).reshape(len(pictures), -1, 5)
            for head, one in zip(self.heads, maps, strict=True)
        ]
        priors = self.priors if self.priors is not None else prior_boxes()  # cause
        return torch.cat(found, dim=1), priors

    def training_step(self, batch, batch_idx):
        pictures, ships = batch
        found, priors = self(pictures)
        near = (priors[:, :2] - ships[:, None, :2]).square().sum(dim=2).argmin(dim=1)
        is_ship = torch.zeros(found.shape[:2]).scatter_(1, near[:, None], 1.0)
        chosen, prior = found[torch.arange(len(near)), near], priors[near]
        moved = (ships - prior) / prior[:, 2:].repeat(1, 2)
        loss = nn.functional.binary_cross_entropy_with_logits(found[..., 4], is_ship)
        loss = loss + nn.functional.smooth_l1_loss(chosen[:, :4], moved)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    pictures = TensorDataset(torch.randn(500, 3, SIDE, SIDE), torch.rand(500, 4))
    data = DataLoader(pictures, batch_size=6, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Ships(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

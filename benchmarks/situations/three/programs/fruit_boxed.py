"""Fruit on a belt: where is it, how large, of which kind? A grid of cells with three shapes each.

report: bubbliiiing/yolov4-pytorch issue 368 (in Chinese: "loss is computed too slowly": 4 of 5 seconds
    of a batch, because it loops over the pictures of the batch and their boxes)
cause: what each cell should say is worked out box by box, picture by picture, with a dozen tiny
    operations and .item() for each
right: the loss (the function that builds the targets, its loop, a marked line) takes as long as the
    network or longer, in many small operations; the change is to work out all boxes of the batch at
    once (or in the data set, with workers)
The mended form builds the same targets.
"""

import torch
from case import Module, Run, convs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, PICTURES, SIDE, CELLS, BOXES, KINDS = 100, 480, 64, 8, 16, 7
SHAPES = torch.tensor([[0.6, 0.6], [1.2, 0.8], [0.8, 1.6]])


class Fruit(Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        layers = (3, 24, 5, 2), (24, 48, 3, 2), (48, 64, 3, 2)
        self.net = convs(*layers, norm=True, pool=False)
        self.head = nn.Conv2d(64, 3 * (5 + KINDS), 1)

    def targets(self, boxes):
        wanted = torch.zeros(len(boxes), 3, CELLS, CELLS, 5 + KINDS)
        for picture in range(len(boxes)):  # cause
            for x, y, wide, high, kind in boxes[picture]:  # cause
                column, row = int(x.item()), int(y.item())
                size = torch.stack([wide, high])
                shared = torch.minimum(size, SHAPES).prod(1)
                shape = int((shared / (size.prod() + SHAPES.prod(1) - shared)).argmax())
                cell = wanted[picture, shape, row, column]
                cell[0], cell[1], cell[2] = 1.0, x - column, y - row
                cell[3:5] = (size / SHAPES[shape]).log()
                cell[5 + int(kind.item())] = 1.0
        return wanted

    def together(self, boxes):
        wanted = torch.zeros(len(boxes), 3, CELLS, CELLS, 5 + KINDS)
        centre, size, kinds = boxes[..., :2], boxes[..., 2:4], boxes[..., 4].long()
        shared = torch.minimum(size[:, :, None], SHAPES).prod(-1)
        whole = size.prod(-1)[..., None] + SHAPES.prod(1) - shared
        shape, cell = (shared / whole).argmax(-1), centre.long()
        parts = torch.ones_like(kinds)[..., None], centre - cell, (size / SHAPES[shape]).log()
        rows = torch.cat([*parts, nn.functional.one_hot(kinds, KINDS)], -1)
        picture = torch.arange(len(boxes))[:, None].expand_as(shape)
        wanted[picture, shape, cell[..., 1], cell[..., 0]] = rows
        return wanted

    def loss(self, batch):
        pictures, boxes = batch
        found = self.head(self.net(pictures)).unflatten(1, (3, -1)).permute(0, 1, 3, 4, 2)
        wanted = self.together(boxes) if self.fixed else self.targets(boxes)
        there = wanted[..., 0]
        sure = nn.functional.binary_cross_entropy_with_logits(found[..., 0], there)
        off = (found[..., 1:] - wanted[..., 1:]).square().sum(-1)
        return sure + (off * there).sum() / there.sum()


def main(run: Run) -> None:
    cells = torch.rand(PICTURES, CELLS * CELLS).topk(BOXES).indices
    corners = torch.stack([cells % CELLS, cells // CELLS], -1)
    sizes = 0.4 + 1.4 * torch.rand(PICTURES, BOXES, 2)
    kinds = torch.randint(KINDS, (PICTURES, BOXES, 1))
    boxes = torch.cat([corners + torch.rand(PICTURES, BOXES, 2), sizes, kinds], -1)
    data = TensorDataset(torch.rand(PICTURES, 3, SIDE, SIDE), boxes)
    run.fit(Fruit(run.fixed), DataLoader(data, batch_size=32, shuffle=True))

"""Where is the pedestrian? A detector over a grid; validation keeps only the best of close boxes.

seen in: ultralytics/yolov3 issue 112, "non_max_suppression takes too much time" (in testing after
each epoch), aladdinpersson/Machine-Learning-Collection issue 62, and experiencor/keras-yolo3
issue 177 ("for-loops over them instead of ... vectorized operations")

cause: validation compares the boxes of each picture pair by pair in Python to suppress close ones
right: names validation (validation_step or its function) as what costs, or points at a marked line
    first; its change compares all boxes at once, fewer boxes, or validates less often
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 1400
SIDE, GRID, LIMIT = 96, 12, 0.5


def overlap(one, other) -> float:
    wide = min(one[3], other[3]) - max(one[1], other[1])  # cause
    high = min(one[4], other[4]) - max(one[2], other[2])  # cause
    if wide <= 0 or high <= 0:  # cause
        return 0.0
    area = (one[3] - one[1]) * (one[4] - one[2])  # cause
    area += (other[3] - other[1]) * (other[4] - other[2])  # cause
    return wide * high / (area - wide * high)  # cause


def suppressed(boxes):
    waiting, kept = sorted(boxes.tolist(), reverse=True), []
    while waiting:
        best = waiting.pop(0)
        kept.append(best)
        waiting = [box for box in waiting if overlap(best, box) < LIMIT]  # cause
    return torch.tensor(kept)


def suppressed_at_once(boxes):
    boxes = boxes[boxes[:, 0].argsort(descending=True)]
    close = (overlaps(boxes[:, None, 1:], boxes[:, 1:]) >= LIMIT).numpy()
    gone, kept = np.zeros(len(boxes), dtype=bool), []
    for place in range(len(boxes)):
        if not gone[place]:
            kept.append(place)
            gone |= close[place]
    return boxes[kept]


def overlaps(one, other):
    starts = torch.maximum(one[..., :2], other[..., :2])
    both = (torch.minimum(one[..., 2:], other[..., 2:]) - starts).clamp(min=0).prod(dim=-1)
    areas = (one[..., 2:] - one[..., :2]).prod(dim=-1) + (other[..., 2:] - other[..., :2]).prod(-1)
    return both / (areas - both)


class Pedestrians(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.suppressed = suppressed_at_once if at_once else suppressed
        layers, before = [], 3
        for after in (16, 32, 48):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
            before = after
        self.net = nn.Sequential(*layers, nn.Conv2d(48, 5, 3, padding=1))
        row, column = torch.meshgrid(torch.arange(GRID), torch.arange(GRID), indexing="ij")
        self.register_buffer("cells", torch.stack([column, row], dim=-1).flatten(0, 1) + 0.5)

    def forward(self, pictures):
        found = self.net(pictures).flatten(2).mT
        centre, half = self.cells + found[..., 1:3].tanh(), found[..., 3:].exp() / 2
        return found[..., 0], torch.cat([centre - half, centre + half], dim=2)

    def training_step(self, batch, batch_idx):
        pictures, people = batch
        scores, boxes = self(pictures)
        nearest = (self.cells - people[:, None, :2] - 0.5).square().sum(dim=2).argmin(dim=1)
        chosen = boxes[torch.arange(len(boxes)), nearest]
        loss = nn.functional.cross_entropy(scores, nearest)
        loss = loss + nn.functional.smooth_l1_loss(chosen, people)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        scores, boxes = self(batch[0])
        for score, box, person in zip(scores, boxes, batch[1], strict=True):
            kept = self.suppressed(torch.cat([score[:, None], box], dim=1))  # cause
            self.log("hit", (overlaps(kept[:5, 1:], person) > LIMIT).any().float())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def people(count: int) -> TensorDataset:
    corners = torch.rand(count, 2) * (GRID - 3)
    boxes = torch.cat([corners, corners + torch.rand(count, 2) + 1], dim=1)
    return TensorDataset(torch.rand(count, 3, SIDE, SIDE), boxes)


def main(run: Run) -> None:
    train = DataLoader(people(240), batch_size=8, shuffle=True)
    later = DataLoader(people(8), batch_size=8)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Pedestrians(run.fixed), train, later)


if __name__ == "__main__":
    main(arguments(STEPS))

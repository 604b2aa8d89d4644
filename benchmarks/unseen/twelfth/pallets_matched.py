"""Where are the pallets? A dense detector over the ceiling camera of a warehouse.

cause: the loss fits boxes to grid cells in Python, picture by picture and box by box, with a few
    small tensor operations for each box alone
right: names targets or training_step (the loss's matching of boxes) at a marked line; its change
    does it for all boxes of the batch at once, or in the loader's workers
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 260
PICTURES, SIDE, STRIDE, BATCH, MOST = 1500, 64, 4, 12, 10
GRID = SIDE // STRIDE


class Warehouse(Dataset):
    """Grey pictures with as many boxes (x0, y0, x1, y1) as there happen to be."""

    def __init__(self):
        self.pictures = torch.randint(0, 255, (PICTURES, 1, SIDE, SIDE), dtype=torch.uint8)
        corners = torch.rand(PICTURES, MOST, 2) * (SIDE - 24)
        self.boxes = torch.cat([corners, corners + 6 + torch.rand_like(corners) * 16], dim=2)
        self.counts = torch.randint(2, MOST + 1, (PICTURES,)).tolist()

    def __len__(self):
        return PICTURES

    def __getitem__(self, i):
        return self.pictures[i].float() / 255, self.boxes[i, : self.counts[i]]


def collate(samples):
    pictures, boxes = zip(*samples, strict=True)
    owner = torch.repeat_interleave(torch.tensor([len(some) for some in boxes]))
    return torch.stack(pictures), torch.cat(boxes), owner


def cells():
    low = torch.arange(GRID) * float(STRIDE)
    y, x = torch.meshgrid(low, low, indexing="ij")
    return torch.stack([x, y, x + STRIDE, y + STRIDE], dim=2)


def targets_by_box(boxes, owner, count):
    """How much of each cell is covered, by the box that covers most of it."""
    grid = cells()
    target = torch.zeros(count, GRID, GRID)
    for picture in range(count):
        for box in boxes[owner == picture]:
            low = torch.maximum(grid[..., :2], box[:2])  # cause
            high = torch.minimum(grid[..., 2:], box[2:])  # cause
            covered = (high - low).clamp(min=0).prod(dim=2) / STRIDE**2  # cause
            target[picture] = torch.maximum(target[picture], covered)  # cause
    return target


def targets_at_once(boxes, owner, count):
    grid = cells()
    low = torch.maximum(grid[..., :2], boxes[:, None, None, :2])
    high = torch.minimum(grid[..., 2:], boxes[:, None, None, 2:])
    covered = (high - low).clamp(min=0).prod(dim=3) / STRIDE**2
    target = torch.zeros(count, GRID, GRID)
    where = owner[:, None, None].expand_as(covered)
    return target.scatter_reduce(0, where, covered, "amax")


class Detector(L.LightningModule):
    def __init__(self, at_once):
        super().__init__()
        self.targets = targets_at_once if at_once else targets_by_box
        layers, width = [], 1
        for wider, stride in ((24, 2), (48, 2), (48, 1), (64, 1)):
            layers += [
                nn.Conv2d(width, wider, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(wider),
                nn.ReLU(),
            ]
            width = wider
        self.net = nn.Sequential(*layers, nn.Conv2d(width, 1, 1))

    def training_step(self, batch, batch_idx):
        pictures, boxes, owner = batch
        target = self.targets(boxes, owner, len(pictures))  # cause
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(pictures)[:, 0], target)
        self.log("train_loss", loss, batch_size=len(pictures))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Warehouse(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        collate_fn=collate,
        persistent_workers=True,
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Detector(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

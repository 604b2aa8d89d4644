"""A detector's head on images with a varying number of objects.

cause: the loss matches anchors and boxes by a Python loop that computes the IoU of each pair
accept: host-bound @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 380
GRID = 8


class Scenes(Dataset):
    def __init__(self, count: int) -> None:
        self.images = torch.rand(count, 3, 64, 64)
        corners = [torch.rand(int(torch.randint(3, 11, ())), 2) * 0.7 for _ in range(count)]
        self.boxes = [torch.cat([c, c + 0.1 + 0.2 * torch.rand(len(c), 2)], 1) for c in corners]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int):
        return self.images[index], self.boxes[index]


def collate(samples):
    return torch.stack([image for image, _ in samples]), [boxes for _, boxes in samples]


def iou(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])  # cause
    height = min(a[3], b[3]) - max(a[1], b[1])  # cause
    if width <= 0 or height <= 0:  # cause
        return 0.0
    inner = width * height
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return inner / (areas - inner)


def loop_match(anchors, boxes):
    anchors, boxes = anchors.tolist(), boxes.tolist()
    return torch.tensor([max(iou(a, b) for b in boxes) for a in anchors])  # cause


def batch_match(anchors, boxes):
    low = torch.maximum(anchors[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(anchors[:, None, 2:], boxes[None, :, 2:])
    inner = (high - low).clamp(min=0).prod(2)
    area_a = (anchors[:, 2:] - anchors[:, :2]).prod(1)
    area_b = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return (inner / (area_a[:, None] + area_b[None] - inner)).amax(1)


class Detector(L.LightningModule):
    def __init__(self, match) -> None:
        super().__init__()
        self.match = match
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 1, 1),
        )  # fmt: skip
        ys, xs = torch.meshgrid(torch.arange(GRID), torch.arange(GRID), indexing="ij")
        corner = torch.stack([xs, ys], -1).view(-1, 2) / GRID
        self.register_buffer("anchors", torch.cat([corner, corner + 0.2], 1))

    def training_step(self, batch, batch_idx):
        images, boxes = batch
        target = torch.stack([self.match(self.anchors, found) for found in boxes])  # cause
        scores = self.net(images).flatten(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, (target > 0.3).float())
        self.log("train_loss", loss, batch_size=len(images))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(Scenes(800), batch_size=32, shuffle=True, collate_fn=collate)
    model = Detector(batch_match if run.fixed else loop_match)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))

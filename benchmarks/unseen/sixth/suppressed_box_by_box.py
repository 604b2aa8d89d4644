"""Ships on pictures from above: a small detector that is validated after every epoch.

seen in: OlafenwaMoses/ImageAI pull request 797, "Fix slow validation" (suppression in nested loops,
minutes where training takes seconds), ultralytics/yolov3 issue 112 and Peterisfar/YOLOV3 issue 19

cause: validation suppresses overlapping boxes picture by picture and box by box in a Python loop
right: names validation, or the loop of small operations in it, as the cost, or points at a marked
    line first; its change does the suppression for whole batches, or validates less often
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
SIDE, GRID, OVERLAP = 80, 10, 0.5


def overlaps(one, other):
    """Return the intersection over union of boxes (x1, y1, x2, y2), broadcast."""
    corners = torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(
        one[..., :2], other[..., :2]
    )
    both = corners.clamp(min=0).prod(dim=-1)
    sizes = [(boxes[..., 2:] - boxes[..., :2]).prod(dim=-1) for boxes in (one, other)]
    return both / (sizes[0] + sizes[1] - both)


def kept_one_by_one(boxes, scores):
    """Mark the boxes, sorted by score, that overlap with no better one that is kept."""
    kept = torch.zeros_like(scores, dtype=torch.bool)
    for picture in range(len(boxes)):
        left = torch.arange(boxes.shape[1])
        while len(left):  # cause
            best, left = left[0], left[1:]  # cause
            kept[picture, best] = True  # cause
            shared = overlaps(boxes[picture, best], boxes[picture, left])  # cause
            left = left[shared <= OVERLAP]  # cause
    return kept


def kept_all_at_once(boxes, scores):
    """Do the same for all pictures of the batch, with each pair compared once."""
    clash = overlaps(boxes[:, :, None], boxes[:, None]) > OVERLAP
    clash = clash.triu(diagonal=1)
    kept = torch.ones_like(scores, dtype=torch.bool)
    for place in range(boxes.shape[1]):
        kept &= ~(kept[:, place, None] & clash[:, place])
    return kept


class Ships(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.kept = kept_all_at_once if at_once else kept_one_by_one
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 96, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(96, 5, 1),
        )
        line = (torch.arange(GRID) + 0.5) / GRID
        centres = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=2).flatten(0, 1)
        self.register_buffer("centres", centres)

    def forward(self, pictures):
        found = self.net(pictures).flatten(2).mT
        middle = self.centres + 0.1 * found[..., :2].tanh()
        half = 0.1 * found[..., 2:4].sigmoid()
        return torch.cat([middle - half, middle + half], dim=2), found[..., 4]

    def training_step(self, batch, batch_idx):
        pictures, ships, there = batch
        boxes, scores = self(pictures)
        far = nn.functional.smooth_l1_loss(boxes, ships, reduction="none").sum(dim=2)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, there)
        loss = loss + (far * there).sum() / there.sum()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        pictures, ships, there = batch
        boxes, scores = self(pictures)
        order = scores.argsort(dim=1, descending=True)
        boxes = boxes.take_along_dim(order[..., None], dim=1)
        kept = self.kept(boxes, scores)  # cause
        best = overlaps(ships[:, :, None], boxes[:, None]) * kept[:, None]
        hit = (best.amax(dim=2) > OVERLAP) & (there > 0)
        self.log("val_recall", hit.sum() / there.sum())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def harbour(count: int) -> TensorDataset:
    corner = torch.rand(count, GRID**2, 2)
    ships = torch.cat([corner, corner + 0.05 + 0.1 * torch.rand(count, GRID**2, 2)], dim=2)
    there = (torch.rand(count, GRID**2) > 0.9).float()
    return TensorDataset(torch.rand(count, 3, SIDE, SIDE), ships, there)


def main(run: Run) -> None:
    train = DataLoader(harbour(480), batch_size=12, shuffle=True)
    held_out = DataLoader(harbour(96), batch_size=24)
    trainer = L.Trainer(callbacks=run.callbacks, num_sanity_val_steps=0, **run.trainer)
    trainer.fit(Ships(run.fixed), train, held_out)


if __name__ == "__main__":
    main(arguments(STEPS))

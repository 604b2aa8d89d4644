"""Finds screws, nuts and washers on a conveyor belt: anchors on a grid, a loss for each image.

seen in: amdegroot/ssd.pytorch issue 148, "Why the training is too slow" (match is called once for
each image), and rwightman/efficientdet-pytorch pull 37 ("the largest improvement came from
eliminating loop in target assigner")

cause: anchors are matched and the loss is computed in a Python loop over the images of the batch:
    tiny kernels, and each mask that picks anchors or boxes makes the host wait for its count
right: says that the loop over images in the loss (any of the marked lines) holds the step back,
    as many small kernels, as host time or as host syncs by masks; its change does whole batches at
    once, or replaces the masks that pick by torch.where
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 80, 200
BATCH, SIDE, WIDTH = sized((24, 256, 96), (3, 64, 8))
KINDS, MOST, SHAPES = 3, 6, ((0.2, 0.2), (0.3, 0.15), (0.15, 0.3))


def anchor_grid(cells: int) -> torch.Tensor:
    """Return [cells * cells * shapes, 4] boxes as left, top, right, bottom, from 0 to 1."""
    middles = (torch.arange(cells) + 0.5) / cells
    y, x = torch.meshgrid(middles, middles, indexing="ij")
    centres = torch.stack([x, y], dim=2).view(-1, 1, 2)
    halves = torch.tensor(SHAPES).view(1, -1, 2) / 2
    return torch.cat([centres - halves, centres + halves], dim=2).view(-1, 4)


def overlap(one, other):
    """Return the IoU of every box of `one`, [.., n, 4], with all of `other`, [.., m, 4]."""
    low = torch.maximum(one[..., :, None, :2], other[..., None, :, :2])
    high = torch.minimum(one[..., :, None, 2:], other[..., None, :, 2:])
    shared = area((high - low).clamp(min=0))
    areas = [area(boxes[..., 2:] - boxes[..., :2]) for boxes in (one, other)]
    return shared / (areas[0][..., :, None] + areas[1][..., None, :] - shared)


def area(sides):
    return sides[..., 0] * sides[..., 1]


def one_by_one(anchors, scores, offsets, boxes, kinds):
    losses = []
    for score, offset, its_boxes, its_kinds in zip(scores, offsets, boxes, kinds, strict=True):
        there = its_kinds >= 0  # cause
        its_boxes, its_kinds = its_boxes[there], its_kinds[there]  # cause
        best, nearest = overlap(anchors, its_boxes).max(dim=1)  # cause
        matched = best > 0.4  # cause
        nearest = nearest[matched]  # cause
        wanted = torch.zeros_like(score)  # cause
        wanted[matched, its_kinds[nearest]] = 1  # cause
        loss = nn.functional.binary_cross_entropy_with_logits(score, wanted)  # cause
        if matched.any():  # cause
            shift = its_boxes[nearest] - anchors[matched]  # cause
            loss = loss + nn.functional.smooth_l1_loss(offset[matched], shift)  # cause
        losses.append(loss)
    return torch.stack(losses).mean()


def all_at_once(anchors, scores, offsets, boxes, kinds):
    there = kinds >= 0
    overlaps = overlap(anchors.expand(len(boxes), -1, -1), boxes)
    best, nearest = overlaps.masked_fill(~there[:, None], -1).max(dim=2)
    matched = best > 0.4
    kind = kinds.gather(1, nearest).clamp(min=0)
    wanted = nn.functional.one_hot(kind, KINDS) * matched[..., None]
    shift = boxes.gather(1, nearest[..., None].expand(-1, -1, 4)) - anchors
    wrong = nn.functional.smooth_l1_loss(offsets, shift, reduction="none").mean(dim=2)
    wrong = (wrong * matched).sum(1) / matched.sum(1).clamp(min=1)
    unsure = nn.functional.binary_cross_entropy_with_logits(scores, wanted.float())
    return unsure + wrong.mean()


def block(into: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
    )


class Belt(L.LightningModule):
    def __init__(self, batched: bool) -> None:
        super().__init__()
        self.loss = all_at_once if batched else one_by_one
        stages = [block(3, WIDTH // 2, 2), block(WIDTH // 2, WIDTH, 2), block(WIDTH, WIDTH, 2)]
        body = [block(WIDTH, WIDTH) for _ in range(6)]
        self.net = nn.Sequential(*stages, *body, nn.Conv2d(WIDTH, len(SHAPES) * (KINDS + 4), 1))
        self.net.to(memory_format=torch.channels_last)
        self.register_buffer("anchors", anchor_grid(SIDE // 8))

    def forward(self, photos):
        photos = photos.to(memory_format=torch.channels_last).float() / 255
        found = self.net(photos).movedim(1, 3).reshape(len(photos), len(self.anchors), -1)
        return found.float().split([KINDS, 4], dim=2)

    def training_step(self, batch, batch_idx):
        photos, boxes, kinds = batch
        scores, offsets = self(photos)
        loss = self.loss(self.anchors, scores, offsets, boxes, kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    photos = torch.randint(256, (4 * BATCH, 3, SIDE, SIDE), dtype=torch.uint8)
    centres, halves = torch.rand(2, 4 * BATCH, MOST, 2)
    halves = 0.05 + 0.1 * halves
    boxes = torch.cat([centres - halves, centres + halves], dim=2)
    kinds = torch.randint(KINDS, (4 * BATCH, MOST))
    kinds[torch.arange(MOST) > torch.randint(MOST, (4 * BATCH, 1))] = -1
    data = TensorDataset(photos, boxes, kinds)
    batches = DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data, num_samples=EPOCH * BATCH), BATCH, drop_last=True),
        batch_size=None,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
    )
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Belt(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))

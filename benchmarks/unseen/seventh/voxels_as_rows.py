"""Cars and cyclists in a laser scan, seen from above: points in pillars, pillars in a CNN.

seen in: numpy/numpy issue 15713, "np.unique(arr, axis) slow", Deltares/xugrid issue 46, "Benchmark
unique", and mit-han-lab/torchsparse issue 106 (its voxels come from np.unique)

cause: the dataset finds the pillars of a turned scan by np.unique over rows of coordinates, which
    sorts rows as records
right: says that np.unique over rows (finding the pillars) takes the time, or points at the marked
    line first; its change numbers each cell and takes np.unique of numbers (or counts them)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 450
SCANS, POINTS, CELLS, REACH, WIDTH = 400, 4000, 64, 40.0, 32


class Scans(Dataset):
    def __init__(self, numbered: bool) -> None:
        rng = np.random.default_rng(1)
        self.numbered = numbered
        self.points = (rng.standard_normal((SCANS, POINTS, 4)) * 12).astype(np.float32)
        self.objects = (rng.random((SCANS, 1, 16, 16)) < 0.05).astype(np.float32)

    def __len__(self) -> int:
        return SCANS

    def __getitem__(self, number):
        points = turned(self.points[number], np.random.uniform(-0.3, 0.3))
        points = points[np.abs(points[:, :2]).max(axis=1) < REACH]
        cells = ((points[:, :2] + REACH) * (CELLS / (2 * REACH))).astype(np.int64)
        if self.numbered:
            keys, pillar = np.unique(cells[:, 0] * CELLS + cells[:, 1], return_inverse=True)
            pillars = np.stack([keys // CELLS, keys % CELLS], axis=1)
        else:
            pillars, pillar = np.unique(cells, axis=0, return_inverse=True)  # cause
        centres = (pillars[pillar] + 0.5) * (2 * REACH / CELLS) - REACH
        features = np.concatenate([points, points[:, :2] - centres], axis=1, dtype=np.float32)
        return features, pillar, pillars, self.objects[number]


def turned(points, angle):
    along, across = np.cos(angle), np.sin(angle)
    turn = np.array([[along, -across], [across, along]], dtype=np.float32)
    return np.concatenate([points[:, :2] @ turn, points[:, 2:]], axis=1)


def collate(scans):
    features, pillar, pillars, objects = zip(*scans, strict=True)
    firsts = np.cumsum([0] + [len(one) for one in pillars[:-1]])
    pillar = np.concatenate([one + first for one, first in zip(pillar, firsts, strict=True)])
    places = [n * CELLS**2 + one[:, 0] * CELLS + one[:, 1] for n, one in enumerate(pillars)]
    arrays = np.concatenate(features), pillar, np.concatenate(places), np.stack(objects)
    return [torch.from_numpy(one) for one in arrays]


class Pillars(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(nn.Linear(6, WIDTH, bias=False), nn.BatchNorm1d(WIDTH))
        self.above = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * WIDTH, 1, 1),
        )

    def forward(self, features, pillar, places, scans):
        points = self.points(features).relu()
        rows = pillar[:, None].expand_as(points)
        pillars = points.new_zeros(len(places), WIDTH).scatter_reduce(0, rows, points, "amax")
        grid = pillars.new_zeros(scans * CELLS**2, WIDTH).index_copy(0, places, pillars)
        return self.above(grid.view(scans, CELLS, CELLS, WIDTH).movedim(3, 1))

    def training_step(self, batch, batch_idx):
        *scan, objects = batch
        scores = self(*scan, len(objects))
        loss = nn.functional.binary_cross_entropy_with_logits(scores, objects)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Scans(run.fixed), batch_size=4, shuffle=True, collate_fn=collate)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Pillars(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

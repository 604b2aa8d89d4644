"""Nodules in scans of lungs: cubes are cut out, every other one round a nodule.

report: Project-MONAI/MONAI issue 892, "Cache the Pos/Neg centers of RandPosNegCrop to accelerate
    training" ("we can only compute Positive and negative centers once, then randomly select")
cause: for every cube, all places of the whole label are listed, nodule and not, to pick one of them
right: the wait for data (the data set's __getitem__, a marked line: flatnonzero over the whole label)
    holds the training back; the change is to list the places of each scan once, before training
    (and keep some thousand of them), or to draw until one fits. Workers only spread it over cores
The mended form picks the same cubes.
"""

import numpy as np
import torch
from case import Items, Run, Supervised
from torch import nn
from torch.utils.data import DataLoader

STEPS, SCANS, SHAPE, SIDE = 70, 6, (128, 128, 96), 20


def places(label):
    return np.flatnonzero(label), np.flatnonzero(label == 0)  # cause


class Cubes(Items):
    def __init__(self, scans, labels, fixed):
        super().__init__(scans)
        self.labels = labels
        self.listed = [places(label) for label in labels] if fixed else None

    def __len__(self):
        return 100 * len(self.items)

    def __getitem__(self, index):
        scan = index % len(self.items)
        image, label = self.items[scan], self.labels[scan]
        listed = self.listed[scan] if self.listed else places(label)  # cause
        draw = np.random.default_rng(index)
        middle = np.unravel_index(draw.choice(listed[index // len(self.items) % 2]), SHAPE)
        corner = [min(max(m - SIDE // 2, 0), s - SIDE) for m, s in zip(middle, SHAPE, strict=True)]
        cube = tuple(slice(c, c + SIDE) for c in corner)
        return torch.from_numpy(image[cube])[None], torch.from_numpy(label[cube]).long()


def main(run: Run) -> None:
    draw = np.random.default_rng(9)
    scans = draw.standard_normal((SCANS, *SHAPE), np.float32)
    labels = (draw.random((SCANS, *SHAPE), np.float32) > 0.995).astype(np.uint8)
    net = nn.Conv3d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv3d(8, 8, 3, padding=1), nn.ReLU()
    loader = DataLoader(Cubes(scans, labels, run.fixed), batch_size=8, shuffle=True)
    run.fit(Supervised(*net, nn.Conv3d(8, 2, 1)), loader)

"""Tissue in slices of scans; before a slice is shown, its grey values go through a random curve.

report: Kaiseem/SLAug issue 2, "GPU utilization" ("decrease the nTimes ... e.g., nTimes=1000"), and
    MrGiovanni/ModelsGenesis issue 24, "Transformations too slow for training"
cause: a curve of four random points is tabulated at 100,000 places for each slice, only to look up
    a few thousand grey values in it
right: the wait for data (the data set's __getitem__, the function that makes the curve, a marked
    line) holds the training back; the change is a table of about 1000 places (made once for its
    powers). More workers only spread it over cores
The mended form looks values up in a coarser table: they differ by less than a thousandth.
"""

import numpy as np
import torch
from case import Items, Run, Supervised, convs
from torch import nn
from torch.utils.data import DataLoader

STEPS, SLICES, SIDE, TISSUES = 90, 320, 64, 5


def bezier(points, places):
    t = np.linspace(0.0, 1.0, places)  # cause
    weights = np.array([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])  # cause
    x, y = points.T @ weights  # cause
    return np.sort(x), y  # cause


class Slices(Items):
    def __init__(self, slices, tissues, fixed):
        super().__init__(slices)
        self.tissues, self.places = tissues, 1_000 if fixed else 100_000  # cause

    def __getitem__(self, index):
        middle = np.random.default_rng(index).random((2, 2))
        points = np.vstack([[0.0, 0.0], middle, [1.0, 1.0]])
        x, y = bezier(points, self.places)
        grey = np.interp(self.items[index], x, y).astype(np.float32)
        return torch.from_numpy(grey), torch.from_numpy(self.tissues[index])


def main(run: Run) -> None:
    draw = np.random.default_rng(5)
    slices = draw.random((SLICES, 1, SIDE, SIDE), np.float32)
    tissues = draw.integers(0, TISSUES, (SLICES, SIDE, SIDE))
    net = convs((1, 16, 3, 1), (16, 24, 3, 1), norm=True, pool=False), nn.Conv2d(24, TISSUES, 1)
    loader = DataLoader(Slices(slices, tissues, run.fixed), batch_size=8, shuffle=True)
    run.fit(Supervised(*net), loader)

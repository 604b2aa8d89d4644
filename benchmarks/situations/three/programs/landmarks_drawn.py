"""Where are the joints of a hand? A small network is to paint a spot at each of 21 joints.

report: microsoft/human-pose-estimation.pytorch issue 31, "Why the DataLoader get stuck during
    training ?" ("we need to do N cycles (N is the number of joints) according to the function
    generate_target": most of the time goes to drawing the wanted maps)
cause: for each joint of each sample a whole map is drawn anew, its grid too, with an exponential
    for every place: the training waits for the data set
right: the wait for data (the data set's __getitem__, the loop over the joints, a marked line) holds
    the training back; the change is to draw all joints at once (a row times a column for each, the
    grid made once), or for a whole batch in the step. Workers only spread it over cores
The mended form draws the same maps up to rounding.
"""

import numpy as np
import torch
from case import Items, Run, Supervised, convs
from torch import nn
from torch.utils.data import DataLoader

STEPS, HANDS, SIDE, JOINTS, SIGMA = 220, 600, 48, 21, 2.0


class Hands(Items):
    def __init__(self, pictures, joints, fixed):
        super().__init__(pictures)
        self.joints, self.fixed = joints, fixed
        self.places = np.arange(SIDE, dtype=np.float32)

    def together(self, joints):
        spots = np.exp(-((self.places - joints[..., None]) ** 2) / (2 * SIGMA**2))
        return spots[:, 1, :, None] * spots[:, 0, None, :]

    def target(self, joints):
        maps = np.zeros((JOINTS, SIDE, SIDE), np.float32)
        for number, (x, y) in enumerate(joints):  # cause
            columns, rows = np.meshgrid(np.arange(SIDE), np.arange(SIDE))  # cause
            distance = (columns - x) ** 2 + (rows - y) ** 2  # cause
            maps[number] = np.exp(-distance / (2 * SIGMA**2))  # cause
        return maps

    def __getitem__(self, index):
        joints = self.joints[index]
        maps = self.together(joints) if self.fixed else self.target(joints)
        return torch.from_numpy(self.items[index]), torch.from_numpy(maps)


def main(run: Run) -> None:
    draw = np.random.default_rng(4)
    joints = draw.uniform(2, SIDE - 2, (HANDS, JOINTS, 2)).astype(np.float32)
    pictures = draw.random((HANDS, 1, SIDE, SIDE), np.float32)
    net = convs((1, 12, 3, 1), (12, 16, 3, 1), pool=False), nn.Conv2d(16, JOINTS, 1)
    loader = DataLoader(Hands(pictures, joints, run.fixed), batch_size=16, shuffle=True)
    run.fit(Supervised(*net, loss=nn.functional.mse_loss), loader)

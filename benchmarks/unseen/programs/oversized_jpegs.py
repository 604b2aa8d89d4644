"""Vegetables on a conveyor are told apart from photographs, each a JPEG file.

Seen in the PyTorch forum's "Bottleneck on decode, resize, and read" (185980).

cause: the photographs lie on disk in the camera's size, and each is decoded whole to be shrunk
accept: data-wait @line
"""

import numpy as np
import torch
from case import Items, Run, Supervised, convs
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader

STEPS, KINDS, SIDE, CAMERA = 160, 9, 48, (560, 420)


class Photographs(Items):
    def __getitem__(self, index):
        with Image.open(self.items[index]) as photograph:
            small = photograph.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)  # cause
        pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)
        return pixels.float().div_(255), index % KINDS


def main(run: Run) -> None:
    size = (72, 54) if run.fixed else CAMERA  # fixed: shrunk once, when they were stored
    chance, paths = np.random.default_rng(3), [run.root / f"{n:04}.jpg" for n in range(96)]
    for path in paths:
        coarse = Image.fromarray(chance.integers(0, 255, (14, 18, 3), dtype=np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(path)
    data = DataLoader(Photographs(paths), batch_size=8, shuffle=True)
    fine, coarse = convs((3, 24, 3, 1), pool=False), convs((24, 48, 3, 1))
    run.fit(Supervised(fine, nn.MaxPool2d(2), coarse, nn.Linear(48, KINDS)), data)

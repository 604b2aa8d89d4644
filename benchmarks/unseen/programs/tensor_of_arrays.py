"""Heartbeats: rhythm from twelve leads of an electrocardiogram.

Seen in pytorch/pytorch issue 13918, "Pytorch very slow to convert list of numpy arrays into
tensors".

cause: the collate gives torch.tensor a list of arrays, which it reads number by number
accept: data-wait @line
"""

import numpy as np
import torch
from case import Run, Supervised, convs
from torch import nn
from torch.utils.data import DataLoader

STEPS, LEADS, LENGTH, RHYTHMS = 300, 12, 300, 9


def collate(samples):
    signals, rhythms = zip(*samples, strict=True)
    return torch.tensor(signals), torch.tensor(rhythms)  # cause


def collate_stacked(samples):
    signals, rhythms = zip(*samples, strict=True)
    return torch.from_numpy(np.stack(signals)), torch.tensor(rhythms)


def main(run: Run) -> None:
    rng = np.random.default_rng(0)
    signals = rng.standard_normal((1600, LEADS, LENGTH)).astype(np.float32)
    hearts = list(zip(signals, rng.integers(RHYTHMS, size=1600).tolist(), strict=True))
    together = collate_stacked if run.fixed else collate  # cause
    layers = convs((LEADS, 48, 7, 2), (48, 64, 5, 2), (64, 96, 5, 2), dims=1)
    rhythm = Supervised(layers, nn.Linear(96, RHYTHMS))
    run.fit(rhythm, DataLoader(hearts, batch_size=24, shuffle=True, collate_fn=together))

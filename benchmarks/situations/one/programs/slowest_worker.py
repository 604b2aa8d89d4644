"""Scans that come from a store on the net; two workers fetch them, one in twelve comes late.

source: pytorch/pytorch #135409 "DataLoader + IterableDataset held up by slowest worker!?"
cause: batches are handed over in their order: while one worker waits for a late scan, the batches that
    the other has ready must wait with the training
right: says that the wait for data comes from single late batches (one worker holds up the other), with
    the advice in_order=False, more workers or a larger prefetch_factor
"""

import time

import torch
from case import Items, Run, Supervised, mlp
from torch import nn
from torch.utils.data import DataLoader

STEPS = 600


class Store(Items):
    def __getitem__(self, index):
        late = self.items[index] % 12 == 0
        time.sleep(0.120 if late else 0.002)  # cause
        rows = torch.randn(96, 128)
        return rows, rows[:, 0] * 0.5


def main(run: Run) -> None:
    keys = torch.randperm(20_000, generator=torch.Generator().manual_seed(5)).tolist()
    options = {"in_order": False} if run.fixed else {}
    data = DataLoader(Store(keys), batch_size=None, num_workers=2, **options)  # cause
    net = mlp(128, 512, 512, 1), nn.Flatten(0)
    run.fit(Supervised(*net, loss=nn.functional.mse_loss), data)

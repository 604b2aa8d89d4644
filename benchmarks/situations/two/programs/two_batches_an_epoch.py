"""A hundred measured soils, to be fitted a few hundred times over.

Reported in Lightning-AI/pytorch-lightning issue 7932, "Training slows down significantly for small
dataset sizes" (185 iterations per second become 47).

cause: an epoch has two batches, and every epoch is validated, saved as a checkpoint and started
    anew, which takes several times as long as its two steps
right: epochs are so short that what happens between them dominates; the change is longer epochs (a
    sampler that repeats the rows) or validation and checkpoints every n epochs
"""

import torch
from case import Run, Validated, mlp
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

STEPS, SOILS, BANDS, SIZE = 300, 100, 200, 64


def main(run: Run) -> None:
    bands = torch.randn(SOILS + 30, BANDS)
    carbon = bands[:, :5].sum(1, keepdim=True)
    train = TensorDataset(bands[:SOILS], carbon[:SOILS])
    rows = 50 * SIZE if run.fixed else SOILS  # cause
    sampler = RandomSampler(train, replacement=run.fixed, num_samples=rows)  # cause
    held_out = DataLoader(TensorDataset(bands[SOILS:], carbon[SOILS:]), batch_size=30)
    model = Validated(mlp(BANDS, 512, 512, 1), loss=nn.functional.mse_loss)
    run.fit(model, DataLoader(train, SIZE, sampler=sampler), held_out)

"""Captions with their tags, held as Python objects; two workers read them.

source: pytorch/pytorch #20433 "Dataloader's memory usage keeps increasing during one single epoch.",
    #19355 "DataLoader consumes much more memory than needed"
cause: two million small Python objects are shared with forked workers; each read counts a reference
    and so makes the worker copy the page: its own memory grows all through the epoch
right: says that the memory of the worker processes grows (by about how much), with the advice to hold
    the records in arrays or tensors (or a packed buffer) rather than in lists, dicts and strings
gain: memory: what two workers have of their own after the last step, MiB
"""

import numpy as np
import torch
from case import Items, Run, Supervised, mlp
from torch import nn
from torch.utils.data import DataLoader

STEPS = 700
MEMORY = True


class Captions(Items):
    def __getitem__(self, index):
        record = self.items[index]  # cause
        length = sum(map(len, record["tags"])) + len(record["text"])
        return torch.full((32,), float(length)), torch.tensor(length / 100)


class Packed(Items):
    def __init__(self, records):
        lengths = [sum(map(len, r["tags"])) + len(r["text"]) for r in records]
        self.items = np.array(lengths)

    def __getitem__(self, index):
        length = int(self.items[index])
        return torch.full((32,), float(length)), torch.tensor(length / 100)


def records(count):
    for number in range(count):
        tags = [f"tag {number} {k}" for k in range(6)]
        yield {"text": f"caption {number} " * (1 + number % 4), "tags": tags, "key": number + 10**9}


def main(run: Run) -> None:
    # both forms make the list first, so that the main process is alike
    kept = list(records(180_000))
    data = Packed(kept) if run.fixed else Captions(kept)  # cause
    if run.fixed:
        del kept
    loader = DataLoader(data, batch_size=256, shuffle=True, num_workers=2, drop_last=True)
    net = mlp(32, 512, 512, 1), nn.Flatten(0)
    run.fit(Supervised(*net, loss=nn.functional.mse_loss), loader)

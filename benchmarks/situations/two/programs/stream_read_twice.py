"""Clicks in a stream of log lines; an epoch is all lines once.

Reported in Lightning-AI/pytorch-lightning issue 15734 ("I expected 313 steps, it ran for 626") and
vahidk/tfrecord issue 78 ("the data is repeated 4 times").

cause: the iterable data set does not look which worker it is in, so that each of the two workers
    reads the whole stream, and an epoch takes every line twice
right: an epoch has each record once per worker: the stream has to be divided by get_worker_info();
    merely faster loading is no cure, as a step is as fast as before
"""

import itertools

import torch
from case import Run, Supervised, mlp, yes_or_no
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

STEPS, LINES, EPOCHS, SIZE = 480, 5120, 3, 32


class Clicks(IterableDataset):
    def __init__(self, lines, divided):
        self.lines, self.divided = lines, divided

    def __iter__(self):
        lines = iter(self.lines)  # cause
        if self.divided and (worker := get_worker_info()):
            lines = itertools.islice(lines, worker.id, None, worker.num_workers)
        for line in lines:
            values = torch.tensor([float(value) for value in line.split()])
            yield values[1:], (values[0] > 0).float()


def main(run: Run) -> None:
    lines = [" ".join(f"{x:.3f}" for x in row) for row in torch.randn(LINES, 41).tolist()]
    data = Clicks(lines, run.fixed)
    loader = DataLoader(data, batch_size=SIZE, num_workers=2, persistent_workers=True)
    model = Supervised(mlp(40, 1024, 1024, 1), loss=yes_or_no)
    run.fit(model, loader, max_steps=-1, max_epochs=EPOCHS)

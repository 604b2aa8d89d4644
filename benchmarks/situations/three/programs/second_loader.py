"""Mushrooms: few pictures have a name; on the others, two views have to give the same answer.

report: pytorch/pytorch issue 23900, "Memory leak when using itertools.cycle" (also bytedance/UNO
    issue 64 and cgtuebingen/SSS-GS issue 6, "A problem: 62G RAM not enough")
cause: itertools.cycle keeps whatever it has yielded, to repeat it later: every batch of the second
    loader stays in memory, and the second round would show the very same views again
right: memory of the process grows with the steps (by about 2.5 MiB each, 500 MiB over the run), and
    the place is the marked line (or: the batches of the second loader, in training_step, are
    kept); the change is a generator that starts the loader anew (while True: yield from loader), or
    both loaders given to the Trainer (CombinedLoader)
gain: memory, no time: what the process has after the last step
The mended form draws its views in another order; it trains alike otherwise.
"""

from itertools import cycle

import torch
from case import Items, Run, Supervised, convs
from torch import nn
from torch.utils.data import DataLoader

STEPS, NAMED, OTHERS, SIDE, KINDS = 200, 640, 1500, 40, 12


class Views(Items):
    """Two views of a picture: with other noise, and turned round."""

    def __len__(self):
        return 12 * len(self.items)

    def __getitem__(self, index):
        picture = self.items[index % len(self.items)].float() / 255
        noisy = picture + 0.1 * torch.randn_like(picture)
        return noisy, noisy.flip(-1) + 0.1 * torch.randn_like(picture)


def rounds(loader):
    while True:
        yield from loader


class Mushrooms(Supervised):
    def __init__(self, others, fixed):
        net = convs((3, 16, 5, 2), (16, 32, 3, 2), (32, 64, 3, 1)), nn.Linear(64, KINDS)
        super().__init__(*net)
        self.others = rounds(others) if fixed else cycle(others)  # cause

    def loss(self, batch):
        one, two = next(self.others)
        alike = nn.functional.mse_loss(self.net(one).softmax(1), self.net(two).softmax(1))
        return super().loss(batch) + 0.5 * alike


def main(run: Run) -> None:
    pictures = torch.randint(256, (NAMED + OTHERS, 3, SIDE, SIDE), dtype=torch.uint8)
    named = torch.utils.data.TensorDataset(
        pictures[:NAMED].float() / 255, torch.randint(KINDS, (NAMED,))
    )
    others = DataLoader(Views(pictures[NAMED:]), batch_size=64, shuffle=True, drop_last=True)
    run.fit(Mushrooms(others, run.fixed), DataLoader(named, batch_size=16, shuffle=True))

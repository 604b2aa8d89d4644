"""What happens next on the road? Frames come with annotations, a list of dictionaries.

Reported in tier4/autoware-ml pull request 78, "store annotations in a fork-shared serialized buffer
to stop DataLoader OOM", and pytorch/pytorch issue 5902.

cause: each of the two forked workers reads from a list of dictionaries, whose reference counts lie
    in the same pages, so that page by page each worker comes to own a copy of all annotations
right: the memory of the data workers grows (not that of the training process), by copy-on-write of
    Python objects; the change is an array or a serialised buffer. Hardly any time is to be gained
"""

import torch
from case import Items, Run, Supervised, mlp
from torch.utils.data import DataLoader

STEPS, FRAMES, HISTORY = 400, 500_000, 4
NAMES = ("x", "y", "yaw", "speed", "width", "length")


class Annotated(Items):
    def __getitem__(self, index):
        past = [self.items[(index - back) % len(self.items)] for back in range(HISTORY)]  # cause
        rows = torch.tensor([[frame[name] for name in NAMES] for frame in past])
        return rows.flatten(), rows[0, 3]


class Arrays(Items):
    def __getitem__(self, index):
        past = [(index - back) % len(self.items) for back in range(HISTORY)]
        rows = torch.tensor([self.items[at].tolist() for at in past])
        return rows.flatten(), rows[0, 3]


def main(run: Run) -> None:
    table = torch.randn(FRAMES, len(NAMES))
    if run.fixed:
        data = Arrays(table)
    else:
        data = Annotated([dict(zip(NAMES, row, strict=True)) for row in table.tolist()])  # cause
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)
    model = Supervised(mlp(HISTORY * len(NAMES), 768, 768, 1), loss=squared)
    run.fit(model, loader)


def squared(scores, wanted):
    return (scores.squeeze(1) - wanted).square().mean()

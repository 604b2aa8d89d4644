"""A small sequence classifier, with Lightning's own profiler still switched on.

source: Lightning-AI/pytorch-lightning #10717 "Pytorch Profiler causes memory leak"
cause: Trainer(profiler="pytorch") records every operation of three steps in five, keeps the events and
    sums them up at the end of the fit
right: says that the Trainer's profiler is on and costs the time (and memory), with the advice to take
    profiler="pytorch" away or to limit it to a few steps
"""

import torch
from case import Module, Run, whole_batches
from torch import nn

STEPS = 260


class Gestures(Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True)
        self.net = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(64, 9)

    def loss(self, batch):
        return nn.functional.cross_entropy(self.head(self.net(batch[0]).mean(1)), batch[1])


def main(run: Run) -> None:
    x = torch.randn(2048, 24, 64)
    options = {} if run.fixed else {"profiler": "pytorch"}  # cause
    run.fit(Gestures(), whole_batches([x, x[:, 0, :9].argmax(1)], 16), **options)

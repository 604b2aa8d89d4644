"""An atomistic model of many small blocks, compiled, because that makes it faster.

source: isayevlab/aimnetcentral PR #109 "Remove the graph breaks that make torch.compile a net loss", also
    pytorch/pytorch #98441 "Torch Compile is slightly slower than eager mode."
cause: each block asks whether its input is finite (.item()), which breaks the compiled graph there: many
    small graphs are compiled and entered one after the other, slower than no compiling
right: names the graph breaks (or .item() at its line) or says that compiling costs more than it saves
    here, with the advice to keep tensors in the compiled part (or not to compile)
"""

import torch
from case import Module, Run, whole_batches
from torch import nn

STEPS = 400


class Block(nn.Module):
    def __init__(self, width, fixed):
        super().__init__()
        self.mix, self.fixed = nn.Linear(width, width), fixed

    def forward(self, x):
        if not x.isfinite().all().item():  # cause
            raise FloatingPointError("the atoms left the box")
        return x + torch.tanh(self.mix(torch.nn.functional.layer_norm(x, x.shape[1:])))


class Atoms(Module):
    def __init__(self, fixed):
        super().__init__()
        self.net = nn.Sequential(*[Block(32, fixed) for _ in range(16)])
        self.head = nn.Linear(32, 1)
        self.compiled = self.net if fixed else torch.compile(self.net)  # cause

    def loss(self, batch):
        energy = self.head(self.compiled(batch[0])).squeeze(1)
        return nn.functional.mse_loss(energy, batch[1])


def main(run: Run) -> None:
    x = torch.randn(6400, 32)
    run.fit(Atoms(run.fixed), whole_batches([x, x.square().sum(1)], 64))

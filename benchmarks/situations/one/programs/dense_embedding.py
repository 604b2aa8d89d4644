"""Recommendations: a table of 220,000 articles, of which a batch needs a few hundred.

source: facebookresearch/dlrm #15 "Adagrad optimizer" (without sparse gradients the entire embedding is
    updated, though most of the update is zero)
cause: the embedding's gradient is dense: zeros for all articles are written, and the optimizer goes over
    the whole table and its state in every step
right: names the embedding's dense gradient or the optimizer's pass over the whole table, with the
    advice sparse=True (and an optimizer that takes it)
"""

import torch
from case import Module, Run, whole_batches
from torch import nn

STEPS = 150


class Articles(Module):
    def __init__(self, fixed):
        super().__init__()
        self.table = nn.Embedding(220_000, 24, sparse=fixed)  # cause
        self.head = nn.Sequential(nn.Linear(24, 256), nn.ReLU(), nn.Linear(256, 1))

    def loss(self, batch):
        shown = self.table(batch[0]).mean(1)
        return nn.functional.mse_loss(self.head(shown).squeeze(1), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=0.05)


def main(run: Run) -> None:
    shown = torch.randint(220_000, (12_000, 12))
    run.fit(Articles(run.fixed), whole_batches([shown, torch.rand(12_000)], 64))

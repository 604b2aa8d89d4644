"""Which shop does a customer visit next? Every customer and shop has a vector of its own.

Reported in dmlc/dgl pull request 1676 (sparse embedding update) and pytorch/pytorch issue 18404
("setting sparse=True when building the Embedding layer").

cause: the gradient of an embedding of 250,000 rows is dense, so that each step clears, fills and
    updates all rows for the 256 that the batch has
right: names the embedding (its backward, or the optimizer's step over a huge table, or a marked
    line); the change is sparse=True with an optimizer that takes it. fused=True alone is no cure
"""

import torch
from case import Module, Run, mlp, whole_batches
from torch import nn

STEPS, CUSTOMERS, SHOPS, WIDTH, SIZE = 200, 250_000, 400, 32, 256


class Visits(Module):
    def __init__(self, sparse):
        super().__init__()
        self.customers = nn.Embedding(CUSTOMERS, WIDTH, sparse=sparse)  # cause
        self.net = mlp(WIDTH, 256, SHOPS)

    def loss(self, batch):
        return nn.functional.cross_entropy(self.net(self.customers(batch[0])), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=0.05)


def main(run: Run) -> None:
    visits = torch.randint(CUSTOMERS, (40_000,)), torch.randint(SHOPS, (40_000,))
    run.fit(Visits(run.fixed), whole_batches(visits, SIZE), enable_checkpointing=False)

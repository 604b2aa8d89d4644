"""The price of used cars, from a table that fits into memory many times.

Seen in Lightning-AI/pytorch-lightning issue 17410, "workers > 0 on DataLoader makes training
unreasonably slow".

cause: two workers, started anew in each epoch, hand over rows that are in memory anyway
accept: worker-startup data-wait @line
"""

import torch
from case import Run, Supervised, mlp, shuffled
from torch import nn

STEPS, FACTS = 300, 26


def main(run: Run) -> None:
    workers = 0 if run.fixed else 2  # cause
    facts, prices = torch.randn(1920, FACTS), torch.rand(1920, 1)
    net = Supervised(mlp(FACTS, 256, 256, 1, act=nn.ELU), loss=nn.functional.l1_loss)
    run.fit(net, shuffled(32, facts, prices, num_workers=workers))  # cause

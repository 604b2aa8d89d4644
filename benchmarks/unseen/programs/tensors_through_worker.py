"""What does a shopper like? Baskets of different sizes, put together by a worker process.

Seen in pytorch/pytorch issue 39443 and Lightning-AI/pytorch-lightning issue 1925: a list of
tensors is slow to hand from process to process.

cause: the worker hands over each basket as a tensor of its own, each through its own shared memory
accept: data-wait @line
"""

import torch
from case import Module, Run, mlp
from torch import nn
from torch.utils.data import DataLoader

STEPS, GOODS, TASTES, COUNT = 450, 6000, 40, 12_800


def ragged(samples):
    baskets, tastes = zip(*samples, strict=True)
    return list(baskets), torch.stack(tastes)  # cause


def flat(samples):
    baskets, tastes = zip(*samples, strict=True)
    ends = torch.tensor([len(basket) for basket in baskets]).cumsum(0)
    return torch.cat(baskets), ends, torch.stack(tastes)


class Tastes(Module):
    def __init__(self):
        super().__init__()
        self.bag, self.net = nn.EmbeddingBag(GOODS, 64, mode="mean"), mlp(64, 640, 640, TASTES)

    def loss(self, batch):
        *baskets, tastes = batch
        if len(baskets) == 1:
            baskets = flat([(basket, tastes[0]) for basket in baskets[0]])[:2]
        goods, ends = baskets
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        return nn.functional.cross_entropy(self.net(self.bag(goods, starts)), tastes)


def main(run: Run) -> None:
    sizes = torch.randint(10, 60, (COUNT,))
    baskets = torch.randint(GOODS, (int(sizes.sum()),)).split(sizes.tolist())
    items = list(zip(baskets, torch.randint(TASTES, (COUNT,)), strict=True))
    collate = flat if run.fixed else ragged  # cause
    workers = {"num_workers": 1, "persistent_workers": True}  # cause
    data = DataLoader(items, batch_size=64, shuffle=True, collate_fn=collate, **workers)  # cause
    run.fit(Tastes(), data)

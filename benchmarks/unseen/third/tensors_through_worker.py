"""What does a shopper like? Baskets of different sizes, put together by a worker process.

seen in: pytorch/pytorch issue 39443 and Lightning-AI/pytorch-lightning issue 1925: a list of
tensors is slow to hand from process to process

cause: the worker hands over each basket as a tensor of its own, each through its own shared memory
accept: data-wait @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 450
GOODS, TASTES = 6000, 40


class Baskets(Dataset):
    def __init__(self, count: int) -> None:
        sizes = torch.randint(10, 60, (count,))
        self.baskets = torch.randint(GOODS, (int(sizes.sum()),)).split(sizes.tolist())
        self.tastes = torch.randint(TASTES, (count,))

    def __len__(self) -> int:
        return len(self.baskets)

    def __getitem__(self, i: int):
        return self.baskets[i], self.tastes[i]


def ragged(samples):
    baskets, tastes = zip(*samples, strict=True)
    return list(baskets), torch.stack(tastes)  # cause


def flat(samples):
    baskets, tastes = zip(*samples, strict=True)
    ends = torch.tensor([len(basket) for basket in baskets]).cumsum(0)
    return torch.cat(baskets), ends, torch.stack(tastes)


class Tastes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(GOODS, 64, mode="mean")
        self.net = nn.Sequential(
            nn.Linear(64, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, TASTES)
        )

    def training_step(self, batch, batch_idx):
        *baskets, tastes = batch
        if len(baskets) == 1:
            baskets = flat([(basket, tastes[0]) for basket in baskets[0]])[:2]
        goods, ends = baskets
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        loss = nn.functional.cross_entropy(self.net(self.bag(goods, starts)), tastes)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(  # cause
        Baskets(12_800),  # cause
        batch_size=64,  # cause
        shuffle=True,  # cause
        num_workers=1,  # cause
        persistent_workers=True,  # cause
        collate_fn=flat if run.fixed else ragged,  # cause
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Tastes(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""What will the customer buy? Neural collaborative filtering with goods that were not bought.

seen in: guoyang9/NCF issue 6 (how the negatives are drawn, and how long it takes) and
theeluwin/pytorch-sgns issue 9 (drawing negatives that are really none "was way too slow")

cause: whether a drawn article was bought is looked up by going through the customer's list of goods
right: names the fetching of items in the loader, or the line that looks an article up in the list;
    its change takes that work out of the step (sets, a table asked for whole batches, or worker
    processes)
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 360
CUSTOMERS, GOODS, NEGATIVES, WIDTH = 300, 5000, 4, 48


class Purchases(Dataset):
    def __init__(self, bought, sets: bool) -> None:
        self.pairs = [(customer, one) for customer, goods in enumerate(bought) for one in goods]
        self.bought = [set(goods) for goods in bought] if sets else bought
        self.chance = random.Random(15)

    def __len__(self) -> int:
        return len(self.pairs)

    def not_bought(self, customer):
        article = self.chance.randrange(GOODS)
        while article in self.bought[customer]:  # cause
            article = self.chance.randrange(GOODS)
        return article

    def __getitem__(self, index):
        customer, article = self.pairs[index]
        return customer, [article, *(self.not_bought(customer) for _ in range(NEGATIVES))]  # cause


def together(items):
    customers, goods = zip(*items, strict=True)
    return torch.tensor(customers), torch.tensor(goods)


class Filtering(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.customers = nn.Embedding(CUSTOMERS, WIDTH)
        self.goods = nn.Embedding(GOODS, WIDTH)
        self.net = nn.Sequential(
            nn.Linear(2 * WIDTH, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)
        )

    def training_step(self, batch, batch_idx):
        customers, goods = batch
        articles = self.goods(goods)
        who = self.customers(customers)[:, None].expand_as(articles)
        scores = self.net(torch.cat([who, articles], dim=2)).squeeze(2)
        bought = torch.zeros_like(scores)
        bought[:, 0] = 1
        loss = nn.functional.binary_cross_entropy_with_logits(scores, bought)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    chance = random.Random(14)
    bought = [chance.sample(range(GOODS), chance.randrange(200, 800)) for _ in range(CUSTOMERS)]
    purchases = Purchases(bought, run.fixed)
    data = DataLoader(purchases, batch_size=400, shuffle=True, collate_fn=together)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Filtering(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""What else will they buy? A denoising autoencoder over supermarket baskets of 3000 articles.

cause: the collate function writes each article of each basket into the batch by itself, one indexed
    assignment of a tensor an article
right: names collate (making the batch from its items, loading the data), or points at a marked line
    first; its change scatters all articles of the batch with one indexed assignment, or collates in
    the loader's workers
"""

from functools import partial

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
COUNT, BATCH, ARTICLES = 8000, 64, 3000


class Baskets(Dataset):
    def __init__(self) -> None:
        popular = torch.rand(ARTICLES).pow(4) + 1e-4
        sizes = torch.randint(8, 30, (COUNT,)).tolist()
        drawn = torch.multinomial(popular.expand(COUNT, -1), 30)
        self.baskets = [row[:size].tolist() for row, size in zip(drawn, sizes, strict=True)]

    def __len__(self):
        return len(self.baskets)

    def __getitem__(self, index):
        return self.baskets[index]


def collate(baskets, at_once):
    bought = torch.zeros(len(baskets), ARTICLES)
    if at_once:
        rows = torch.tensor([row for row, basket in enumerate(baskets) for _ in basket])
        bought[rows, torch.tensor([article for basket in baskets for article in basket])] = 1.0
        return bought
    for row, basket in enumerate(baskets):
        for article in basket:
            bought[row, article] = 1.0  # cause
    return bought


class Recommender(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.3)
        self.encoder = nn.Sequential(nn.Linear(ARTICLES, 256), nn.ReLU(), nn.Linear(256, 96))
        self.decoder = nn.Sequential(nn.Linear(96, 256), nn.ReLU(), nn.Linear(256, ARTICLES))

    def training_step(self, bought, batch_idx):
        guessed = self.decoder(self.encoder(self.drop(bought)))
        loss = -(nn.functional.log_softmax(guessed, dim=1) * bought).sum(dim=1).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Baskets(), batch_size=BATCH, shuffle=True, collate_fn=partial(collate, at_once=run.fixed)
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Recommender(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

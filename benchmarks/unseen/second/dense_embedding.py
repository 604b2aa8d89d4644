"""Matrix factorization of play counts for a music shop.

cause: the tables of 80 000 users and songs get dense gradients, so Adagrad walks all rows each step
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
USERS, SONGS, SIZE = 50_000, 30_000, 16


class Factors(L.LightningModule):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.user = nn.Embedding(USERS, SIZE, sparse=sparse)  # cause
        self.song = nn.Embedding(SONGS, SIZE, sparse=sparse)  # cause
        self.net = nn.Sequential(
            nn.Linear(3 * SIZE, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, user, song):
        u, s = self.user(user), self.song(song)  # cause
        return self.net(torch.cat([u, s, u * s], dim=1)).squeeze(1)

    def training_step(self, batch, batch_idx):
        user, song, plays = batch
        loss = nn.functional.poisson_nll_loss(self(user, song), plays)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=0.02)


def main(run: Run) -> None:
    plays = TensorDataset(
        torch.randint(USERS, (50_000,)),
        torch.randint(SONGS, (50_000,)),
        torch.randint(20, (50_000,)).float(),
    )
    data = DataLoader(plays, batch_size=256, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Factors(sparse=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

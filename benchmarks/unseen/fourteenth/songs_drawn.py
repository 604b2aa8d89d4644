"""Which song comes next? A recommender that learns from songs not heard, drawn by popularity.

cause: collate draws each listener's negatives with numpy's choice(p=...), which checks and sums up
    the popularity of all songs on every call
right: names the draw in collate (choice with p); its change is to sum the popularity up once and
    to look up uniform numbers in it (searchsorted), or to draw for the whole batch at once
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 170
SONGS, LISTENERS, HEARD, BATCH, DRAWN = 30000, 12000, 20, 64, 15
WIDTH = 64


class Listeners(Dataset):
    def __init__(self) -> None:
        taste = torch.randint(0, SONGS - 400, (LISTENERS, 1))
        self.songs = taste + torch.randint(0, 400, (LISTENERS, HEARD + 1))

    def __len__(self):
        return LISTENERS

    def __getitem__(self, index):
        return self.songs[index]


class Collate:
    """Puts the next song and songs that were not heard beside those that were."""

    def __init__(self, fixed) -> None:
        self.fixed = fixed
        self.chance = np.random.RandomState(1)
        self.popularity = 1 / np.arange(10, SONGS + 10)
        self.popularity /= self.popularity.sum()
        self.summed = self.popularity.cumsum()
        self.summed /= self.summed[-1]

    def __call__(self, rows):
        songs = torch.stack(rows)
        if self.fixed:
            uniform = self.chance.random_sample((len(rows), DRAWN))
            drawn = self.summed.searchsorted(uniform, side="right")
        else:
            drawn = np.stack([self.draw() for _ in rows])
        return songs[:, :-1], torch.cat([songs[:, -1:], torch.from_numpy(drawn)], dim=1)

    def draw(self):
        return self.chance.choice(SONGS, DRAWN, p=self.popularity)  # cause


class Recommender(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.songs = nn.Embedding(SONGS, WIDTH, sparse=True)
        self.score = nn.Sequential(
            nn.Linear(2 * WIDTH, 384), nn.ReLU(), nn.Linear(384, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def training_step(self, batch, batch_idx):
        heard, offered = batch
        taste = self.songs(heard).mean(dim=1, keepdim=True).expand(-1, offered.shape[1], -1)
        scores = self.score(torch.cat([taste, self.songs(offered)], dim=2)).squeeze(2)
        first = torch.zeros(len(heard), dtype=torch.long, device=heard.device)
        loss = nn.functional.cross_entropy(scores, first)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(run: Run) -> None:
    data = DataLoader(
        Listeners(), batch_size=BATCH, shuffle=True, collate_fn=Collate(run.fixed), drop_last=True
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Recommender(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

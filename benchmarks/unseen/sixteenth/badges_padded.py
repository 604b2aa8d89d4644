"""Which club's badge is on the shirt? A small network on photographs that are cropped at random.

cause: __getitem__ widens every photograph with np.pad(mode="reflect"), which is written in Python
    and goes along the axes one after the other, before it cuts the random crop; the widened
    photograph is the same each time
right: names np.pad in __getitem__ (or the wait for data that it causes); its change is to pad all
    photographs once, before training, or the batch at once, as a tensor

Seen in https://github.com/NatLabRockies/phygnn/pull/54 (np.pad is "just too slow") and
https://github.com/numpy/numpy/issues/24388 (it is written in Python).
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
PHOTOS, SIDE, MARGIN, CLUBS, BATCH = 6400, 32, 4, 10, 96


class Badges(Dataset):
    """Photographs as bytes, and a crop at another place each time."""

    def __init__(self, photos, clubs, fixed) -> None:
        self.fixed = fixed
        self.clubs = clubs
        around = ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0))
        self.photos = np.pad(photos, around, mode="reflect") if fixed else photos

    def __len__(self) -> int:
        return len(self.clubs)

    def __getitem__(self, index):
        photo = self.photos[index]
        if not self.fixed:
            around = ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0))
            photo = np.pad(photo, around, mode="reflect")  # cause
        top, left = torch.randint(0, 2 * MARGIN + 1, (2,)).tolist()
        return photo[top : top + SIDE, left : left + SIDE].copy(), self.clubs[index]


class Clubs(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, CLUBS),
        )

    def training_step(self, batch, batch_idx):
        photos, clubs = batch
        said = self.net(photos.permute(0, 3, 1, 2).float() / 255)
        loss = nn.functional.cross_entropy(said, clubs)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, nesterov=True)


def main(run: Run) -> None:
    chance = np.random.default_rng(1)
    clubs = chance.integers(0, CLUBS, PHOTOS)
    colours = chance.integers(0, 160, (CLUBS, 1, 1, 3))
    photos = colours[clubs] + chance.integers(0, 96, (PHOTOS, SIDE, SIDE, 3))
    badges = Badges(photos.astype(np.uint8), clubs, run.fixed)
    data = DataLoader(badges, batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Clubs(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Whose seal is on the letter? A residual CNN over photographs of wax seals.

cause: the dataset shrinks each photograph in the workers with two nested Python loops, a mean in
    NumPy for each pixel of the small picture
right: names __getitem__ or shrink (or the loader's workers as too slow for the step) at a marked
    line; its change shrinks a picture in one go (reshape and mean, PIL, interpolate) or beforehand
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 280
n_photos, n_houses, batch_size = 2400, 12, 8
large, small = 96, 24
cell = large // small


def shrink(photo, in_one_go):
    if in_one_go:
        return photo.reshape(small, cell, small, cell).mean(axis=(1, 3), dtype=np.float32)
    out = np.zeros((small, small), dtype=np.float32)
    for row in range(small):
        for col in range(small):
            top, left = row * cell, col * cell
            out[row, col] = photo[top : top + cell, left : left + cell].mean()  # cause
    return out


class SealPhotos(Dataset):
    def __init__(self, in_one_go):
        rng = np.random.default_rng(0)
        self.photos = rng.integers(0, 255, (n_photos, large, large), dtype=np.uint8)
        self.houses = rng.integers(0, n_houses, n_photos)
        self.in_one_go = in_one_go

    def __len__(self):
        return n_photos

    def __getitem__(self, i):
        pixels = shrink(self.photos[i], self.in_one_go)  # cause
        return torch.from_numpy(pixels / 127.5 - 1)[None], self.houses[i]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1)
        self.b = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(self.norm(x))))


class SealNet(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 40, 3, padding=1)
        self.blocks = nn.Sequential(Block(40), nn.MaxPool2d(2), Block(40))
        self.head = nn.Linear(40, n_houses)
        self.loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = self.loss_fn(self(x), y)
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9, fused=True)


def main(run: Run) -> None:
    loader = DataLoader(
        SealPhotos(run.fixed), batch_size=batch_size, shuffle=True, drop_last=True, num_workers=2
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(SealNet(), loader)


if __name__ == "__main__":
    main(arguments(STEPS))

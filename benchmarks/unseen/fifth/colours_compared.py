"""What is on the ground? Land cover from the air, the labels painted in colours.

seen in: stackoverflow.com/questions/42750910, "Convert RGB image to index image", and 53059201,
both for the labels of semantic segmentation

cause: for every item the painted label is compared with each of 14 colours to find the classes
right: names the fetching of items in the loader, or the lines that compare colours; its change
    takes that work out of the step (converted once beforehand, or worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
SIDE, KINDS = 64, 14
COLOURS = np.random.default_rng(1).integers(256, size=(KINDS, 3), dtype=np.uint8)


def kinds_of(label):
    kinds = np.zeros(label.shape[:2], dtype=np.int64)
    for kind, colour in enumerate(COLOURS):
        kinds[(label == colour).all(axis=2)] = kind  # cause
    return kinds


class Ground(Dataset):
    def __init__(self, pictures, labels, before: bool) -> None:
        self.pictures, self.labels = pictures, labels
        self.kinds = [kinds_of(label) for label in labels] if before else None

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index):
        if self.kinds:
            return self.pictures[index], self.kinds[index]
        return self.pictures[index], kinds_of(self.labels[index])  # cause


class Cover(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, stride=2, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=2, dilation=2),
            nn.BatchNorm2d(48),
            nn.ReLU(),
            nn.Conv2d(48, KINDS, 1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
        )

    def training_step(self, batch, batch_idx):
        pictures, kinds = batch
        loss = nn.functional.cross_entropy(self.net(pictures), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, fused=True)


def main(run: Run) -> None:
    chance = np.random.default_rng(3)
    labels = [COLOURS[chance.integers(KINDS, size=(SIDE, SIDE))] for _ in range(300)]
    ground = Ground(torch.randn(300, 3, SIDE, SIDE), labels, run.fixed)
    data = DataLoader(ground, batch_size=8, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Cover(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

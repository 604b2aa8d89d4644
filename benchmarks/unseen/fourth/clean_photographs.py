"""Mushrooms from small photographs on disk, read by a worker that stays.

accept: none
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 160
KINDS, SIDE = 7, 48


class Photographs(Dataset):
    def __init__(self, paths) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as photograph:
            pixels = torch.from_numpy(np.array(photograph.convert("RGB")))
        return pixels.permute(2, 0, 1), index % KINDS


class Mushrooms(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, KINDS),
        )

    def training_step(self, batch, batch_idx):
        pixels, kinds = batch
        loss = nn.functional.cross_entropy(self.net(pixels.float().div_(255)), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def taken(folder, count=640):
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(3)
    for number in range(count):
        coarse = Image.fromarray(chance.integers(0, 255, (6, 6, 3), dtype=np.uint8))
        coarse.resize((SIDE, SIDE)).save(folder / f"{number:04}.jpg")
    return sorted(folder.glob("*.jpg"))


def main(run: Run) -> None:
    data = DataLoader(
        Photographs(taken(run.root / "photographs")),
        batch_size=16,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Mushrooms(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

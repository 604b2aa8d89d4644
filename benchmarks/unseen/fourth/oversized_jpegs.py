"""Vegetables on a conveyor are told apart from photographs, each a JPEG file.

seen in: the PyTorch forum's "Bottleneck on decode, resize, and read" (185980) and FastAI.jl's page
on presizing

cause: the photographs lie on disk in the camera's size, and each is decoded whole to be shrunk
accept: data-wait @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 160
KINDS, SIDE, CAMERA = 9, 48, (560, 420)


class Photographs(Dataset):
    def __init__(self, paths) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as photograph:
            small = photograph.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)  # cause
        pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)
        return pixels.float().div_(255), index % KINDS


class Sorter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(48, KINDS),
        )

    def training_step(self, batch, batch_idx):
        pixels, kinds = batch
        loss = nn.functional.cross_entropy(self.net(pixels), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def taken(folder, size, count=96):
    """Write photographs of that size."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(3)
    for number in range(count):
        coarse = Image.fromarray(chance.integers(0, 255, (14, 18, 3), dtype=np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(folder / f"{number:04}.jpg")
    return sorted(folder.glob("*.jpg"))


def main(run: Run) -> None:
    size = (72, 54) if run.fixed else CAMERA  # fixed: shrunk once, when they were stored
    photographs = Photographs(taken(run.root / "photographs", size))
    data = DataLoader(photographs, batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Sorter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Which pixels are the car? A small U-Net on pictures and masks in two folders.

seen in: milesial/Pytorch-UNet issue 449, "treat glob as an expensive operation", and 245

cause: for each item both folders are searched with glob for the files of that name
right: names the fetching of items in the loader, or the lines with glob; its change takes the
    search or the loading out of the step (paths found once, or worker processes)
"""

from pathlib import Path

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 160
SIDE, COUNT = 64, 1200


class Cars(Dataset):
    def __init__(self, folder: Path, listed: bool) -> None:
        self.pictures, self.masks = folder / "pictures", folder / "masks"
        self.names = sorted(path.stem for path in self.pictures.iterdir())
        self.listed = None
        if listed:
            self.listed = [sorted(part.iterdir()) for part in (self.pictures, self.masks)]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index):
        if self.listed:
            picture, mask = self.listed[0][index], self.listed[1][index]
        else:
            name = self.names[index]
            picture = next(iter(self.pictures.glob(f"{name}.*")))  # cause
            mask = next(iter(self.masks.glob(f"{name}_mask.*")))  # cause
        pixels = torch.from_numpy(np.load(picture)).float().div(255)
        return pixels, torch.from_numpy(np.load(mask)).float()


def twice(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1), nn.ReLU()
    )


class UNet(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = twice(3, 8), twice(8, 16), twice(24, 8)
        self.head = nn.Conv2d(8, 1, 1)

    def training_step(self, batch, batch_idx):
        pictures, masks = batch
        fine = self.first(pictures)
        coarse = self.second(nn.functional.max_pool2d(fine, 2))
        joined = torch.cat([fine, nn.functional.interpolate(coarse, scale_factor=2)], dim=1)
        scores = self.head(self.third(joined)).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, masks)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def write(folder: Path) -> None:
    chance = np.random.default_rng(7)
    for part in ("pictures", "masks"):
        (folder / part).mkdir(parents=True)
    for number in range(COUNT):
        pixels = chance.integers(256, size=(3, SIDE, SIDE), dtype=np.uint8)
        np.save(folder / "pictures" / f"car{number:05d}.npy", pixels)
        np.save(folder / "masks" / f"car{number:05d}_mask.npy", pixels[0] > 128)


def main(run: Run) -> None:
    write(run.root / "data")
    data = DataLoader(Cars(run.root / "data", run.fixed), batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(UNet(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

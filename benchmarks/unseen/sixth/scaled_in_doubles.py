"""Which dish is on the plate? Photographs as they lie in memory, in bytes.

seen in: mistralai/mistral-common issue 316, "Image normalization promotes float32 inputs to
float64", woven-by-toyota/l5kit pull request 222 (dividing by 255 in the dataset) and
CondadosAI/modern-yolonas pull request 42

cause: __getitem__ scales each photograph in NumPy's double precision and then makes floats of it
right: names the fetching of items in the loader, or the lines that scale; its change takes that
    work out of the step (whole batches of bytes scaled at once, single precision, beforehand, or
    worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 560
PHOTOS, SIDE, DISHES = 500, 128, 12
MEAN, STD = np.array([0.55, 0.44, 0.34]), np.array([0.27, 0.27, 0.28])


class Photos(Dataset):
    def __init__(self, photos, dishes, as_bytes: bool) -> None:
        self.photos, self.dishes, self.as_bytes = photos, dishes, as_bytes

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index):
        photo = self.photos[index]
        if self.as_bytes:
            return torch.from_numpy(photo), self.dishes[index]
        photo = (photo / 255.0 - MEAN) / STD  # cause
        return torch.from_numpy(photo.transpose(2, 0, 1)).float(), self.dishes[index]  # cause


class Dishes(L.LightningDataModule):
    def __init__(self, as_bytes: bool) -> None:
        super().__init__()
        self.as_bytes = as_bytes

    def setup(self, stage):
        chance = np.random.default_rng(12)
        self.photos = chance.integers(0, 256, (PHOTOS, SIDE, SIDE, 3), dtype=np.uint8)
        self.dishes = chance.integers(DISHES, size=PHOTOS).tolist()

    def train_dataloader(self):
        photos = Photos(self.photos, self.dishes, self.as_bytes)
        return DataLoader(photos, batch_size=24, shuffle=True, drop_last=True)


class Dish(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(255 * MEAN, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(255 * STD, dtype=torch.float32))
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 7, stride=4, padding=3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, DISHES),
        )

    def on_after_batch_transfer(self, batch, dataloader_idx):
        photos, dishes = batch
        if photos.dtype == torch.uint8:
            photos = ((photos - self.mean) / self.std).permute(0, 3, 1, 2).contiguous()
        return photos, dishes

    def training_step(self, batch, batch_idx):
        photos, dishes = batch
        loss = nn.functional.cross_entropy(self.net(photos), dishes, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, fused=True)


def main(run: Run) -> None:
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Dish(), datamodule=Dishes(run.fixed))


if __name__ == "__main__":
    main(arguments(STEPS))

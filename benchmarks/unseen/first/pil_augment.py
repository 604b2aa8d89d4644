"""A small CNN on 48 x 48 images, augmented with PIL.

cause: each image is rotated, resized and colour-jittered by PIL in __getitem__, one by one
accept: data-wait
"""

import random

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from PIL import Image, ImageEnhance
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

STEPS = 250


class Pictures(Dataset):
    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        self.images = [Image.fromarray(picture) for picture in pixels]
        self.labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def augment(self, image: Image.Image) -> Image.Image:
        image = image.rotate(random.uniform(-15, 15), resample=Image.Resampling.BICUBIC)  # cause
        image = image.resize((56, 56), Image.Resampling.BICUBIC)  # cause
        left, top = random.randrange(9), random.randrange(9)
        image = image.crop((left, top, left + 48, top + 48))  # cause
        return ImageEnhance.Brightness(image).enhance(random.uniform(0.8, 1.2))  # cause

    def __getitem__(self, index: int):
        image = self.augment(self.images[index])  # cause
        array = np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255.0  # cause
        return torch.from_numpy(array), int(self.labels[index])


class SmallCNN(L.LightningModule):
    def __init__(self, augment: bool) -> None:
        super().__init__()
        self.augment = augment
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(64, 10),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        x, y = batch
        if self.augment:  # one affine warp for the whole batch
            angle = (torch.rand(len(x)) - 0.5) * 0.5
            turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1)
            shift = (torch.rand(len(x), 2, 1) - 0.5) * 0.3
            theta = torch.cat([turn.view(-1, 2, 2) * 0.9, shift], 2)
            grid = nn.functional.affine_grid(theta, x.shape, align_corners=False)
            x = nn.functional.grid_sample(x, grid, align_corners=False)
            x = x * (0.8 + 0.4 * torch.rand(len(x), 1, 1, 1))
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(run: Run) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (1500, 48, 48, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, 1500)
    if run.fixed:
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous().float() / 255.0
        dataset: Dataset = TensorDataset(images, torch.from_numpy(labels))
    else:
        dataset = Pictures(pixels, labels)
    data = DataLoader(dataset, batch_size=48, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(SmallCNN(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

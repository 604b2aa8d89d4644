"""Segmentation of microscope images by a small U-shaped network.

cause: colours of the whole image are changed before the small crop is cut out of it
accept: data-wait @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
SIZE, CROP = 288, 96


class RandomGamma:
    def __call__(self, image, mask):
        gamma = float(torch.empty(1).uniform_(0.7, 1.4))
        gain = torch.empty(3, 1, 1).uniform_(0.9, 1.1)
        return (image.float() / 255).pow(gamma).mul(gain).clamp(0, 1), mask  # cause


class RandomCrop:
    def __call__(self, image, mask):
        top, left = torch.randint(SIZE - CROP, (2,)).tolist()
        area = (..., slice(top, top + CROP), slice(left, left + CROP))
        return image[area], mask[area]


class Cells(Dataset):
    def __init__(self, transforms) -> None:
        self.images = torch.randint(256, (48, 3, SIZE, SIZE), dtype=torch.uint8)
        self.masks = torch.randint(2, (48, SIZE, SIZE))
        self.transforms = transforms

    def __len__(self) -> int:
        return 480

    def __getitem__(self, i: int):
        image, mask = self.images[i % 48], self.masks[i % 48]
        for transform in self.transforms:
            image, mask = transform(image, mask)  # cause
        return image, mask


def conv(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU()
    )


class Segmenter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.down = conv(3, 8)
        self.deep = nn.Sequential(nn.MaxPool2d(2), conv(8, 16), conv(16, 16))
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.head = nn.Conv2d(16, 2, 1)

    def training_step(self, batch, batch_idx):
        images, masks = batch
        high = self.down(images)
        scores = self.head(torch.cat([high, self.up(self.deep(high))], dim=1))
        loss = nn.functional.cross_entropy(scores, masks)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    colour, crop = RandomGamma(), RandomCrop()
    cells = Cells([crop, colour] if run.fixed else [colour, crop])  # cause
    data = DataLoader(cells, batch_size=4, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Segmenter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

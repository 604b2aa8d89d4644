"""Galaxies by their shape; up and down mean nothing in the sky, so each is turned at random.

seen in: open-mmlab/mmdetection issue 5572, "Integrating Kornia batch augmentation pipeline", and
MIC-DKFZ/nnUNet issue 3063

cause: the pictures of a batch are turned and brightened one at a time, in a loop over the batch
accept: host-bound small-kernels slow-python @line
"""

import math

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
SHAPES, SIDE = 5, 24


def turns(count):
    angles = torch.rand(count) * 2 * math.pi
    cos, sin, none = angles.cos(), angles.sin(), torch.zeros(count)
    return torch.stack([cos, -sin, none, sin, cos, none], 1).view(count, 2, 3)


def augmented(pictures):
    grid = nn.functional.affine_grid(turns(len(pictures)), pictures.shape, align_corners=False)
    turned = nn.functional.grid_sample(pictures, grid, align_corners=False)
    return turned * (0.8 + 0.4 * torch.rand(len(pictures), 1, 1, 1))


def augmented_singly(pictures):
    return torch.cat([augmented(one.unsqueeze(0)) for one in pictures])  # cause


class Galaxies(L.LightningModule):
    def __init__(self, augment) -> None:
        super().__init__()
        self.augment = augment
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, SHAPES),
        )

    def on_after_batch_transfer(self, batch, dataloader_idx):
        pictures, shapes = batch
        if self.trainer.training:
            pictures = self.augment(pictures)  # cause
        return pictures, shapes

    def training_step(self, batch, batch_idx):
        pictures, shapes = batch
        loss = nn.functional.cross_entropy(self.net(pictures), shapes)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    galaxies = TensorDataset(torch.rand(960, 1, SIDE, SIDE), torch.randint(SHAPES, (960,)))
    data = DataLoader(galaxies, batch_size=32, shuffle=True)
    model = Galaxies(augmented if run.fixed else augmented_singly)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Noise taken off photographs by a small U-Net; the noise is drawn for whole batches.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 140


def twice(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1), nn.ReLU()
    )


class Denoiser(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse, self.joined = twice(3, 16), twice(16, 32), twice(48, 16)
        self.head = nn.Conv2d(16, 3, 1)

    def training_step(self, batch, batch_idx):
        (clean,) = batch
        level = 0.05 + 0.2 * torch.rand(len(clean), 1, 1, 1)
        noisy = clean + level * torch.randn_like(clean)
        fine = self.fine(noisy)
        coarse = self.coarse(nn.functional.max_pool2d(fine, 2))
        both = torch.cat([fine, nn.functional.interpolate(coarse, scale_factor=2)], dim=1)
        loss = nn.functional.mse_loss(noisy - self.head(self.joined(both)), clean)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    photos = TensorDataset(torch.rand(600, 3, 48, 48))
    data = DataLoader(photos, batch_size=6, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Denoiser(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Pictures of knees from a quarter of their frequencies, by a small U of convolutions.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
SIDE = 48


def block(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.LeakyReLU(0.1))


class Knees(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = block(2, 24), block(24, 48), block(72, 24)
        self.last = nn.Conv2d(24, 2, 1)
        lines = (torch.arange(SIDE) - SIDE // 2).abs() < SIDE // 8
        self.register_buffer("kept", torch.fft.ifftshift(lines).float().unsqueeze(1))

    def forward(self, pictures):
        fine = self.down(pictures)
        coarse = self.middle(nn.functional.avg_pool2d(fine, 2))
        wide = nn.functional.interpolate(coarse, scale_factor=2.0)
        return pictures + self.last(self.up(torch.cat([fine, wide], 1)))

    def loss(self, whole):
        folded = torch.fft.ifft2(torch.fft.fft2(whole) * self.kept)
        wanted = torch.cat([whole, torch.zeros_like(whole)], 1)
        return nn.functional.l1_loss(self(torch.cat([folded.real, folded.imag], 1)), wanted)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch[0])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch[0]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.rand(640, 1, SIDE, SIDE)), batch_size=8, shuffle=True)
    held_out = DataLoader(TensorDataset(torch.rand(32, 1, SIDE, SIDE)), batch_size=16)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Knees(), data, held_out)


if __name__ == "__main__":
    main(arguments(STEPS))

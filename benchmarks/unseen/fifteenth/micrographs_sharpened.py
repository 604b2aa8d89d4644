"""What would a longer exposure show? A network sharpens micrographs, judged by their structure.

cause: the structural similarity in the loss blurs five images with a window of 11 by 11 weights
    (121 products for each pixel, forward and backward), though that Gaussian is the product of one
    along the rows and one along the columns
right: names the convolutions with the whole window in Similarity.blur (of the loss); its change is
    two convolutions with 11 weights each, one after the other

Seen in https://github.com/kornia/kornia/pull/2383 and
https://github.com/pytorch/pytorch/pull/22289.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 120
IMAGES, SIDE, BATCH, WIDTH, WINDOW = 1000, 64, 8, 24, 11


class Similarity(nn.Module):
    """One less the mean structural similarity (SSIM) of two batches of images in [0, 1]."""

    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        bell = torch.exp(-(torch.arange(WINDOW) - WINDOW // 2).square() / (2 * 1.5**2))
        bell /= bell.sum()
        self.register_buffer("column", bell.view(1, 1, WINDOW, 1))
        self.register_buffer("row", bell.view(1, 1, 1, WINDOW))
        self.register_buffer("window", self.column * self.row)

    def blur(self, images):
        if self.fixed:
            return nn.functional.conv2d(nn.functional.conv2d(images, self.column), self.row)
        return nn.functional.conv2d(images, self.window)  # cause

    def forward(self, made, real):
        both = [made, real, made * made, real * real, made * real]
        at, real_at, made_2, real_2, product = self.blur(torch.cat(both)).chunk(5)
        made_spread, real_spread = made_2 - at.square(), real_2 - real_at.square()
        together = product - at * real_at
        light = (2 * at * real_at + 1e-4) / (at.square() + real_at.square() + 1e-4)
        return 1 - (light * (2 * together + 9e-4) / (made_spread + real_spread + 9e-4)).mean()


class Sharpener(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, 1, 3, padding=1),
        )
        self.unlike = Similarity(fixed)

    def training_step(self, batch, batch_idx):
        dim, sharp = batch
        made = torch.sigmoid(dim + self.net(dim))
        loss = self.unlike(made, sharp) + nn.functional.l1_loss(made, sharp)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    coarse = torch.rand(IMAGES, 1, SIDE // 8, SIDE // 8)
    sharp = nn.functional.interpolate(coarse, scale_factor=8, mode="bicubic").clamp(0, 1)
    dim = sharp - 0.5 + 0.3 * torch.randn_like(sharp)
    data = DataLoader(TensorDataset(dim, sharp), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Sharpener(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

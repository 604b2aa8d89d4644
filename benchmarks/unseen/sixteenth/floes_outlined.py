"""Where is ice on the sea? A network paints each place of a radar image with its kind of ice.

cause: the decoder widens all its channels to the image's full size with bilinear interpolation
    and only then brings them down to the few kinds of ice with a convolution of one by one, so
    that both work on many times the numbers
right: names the interpolation to full size (upsample_bilinear2d) before the 1x1 convolution, or
    that convolution at full size; its change is to take the convolution first, at the small size,
    and to widen its few channels: both are linear, and the result is the same

Seen in https://github.com/facebookresearch/dinov2/issues/47 (the order is discussed) and
https://github.com/mapbox/robosat/issues/44 ("first doing convolution on the low-res feature maps").
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
IMAGES, SIDE, KINDS, BATCH, WIDTH = 1600, 64, 5, 8, 48


class Floes(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.net = nn.Sequential(
            nn.Conv2d(2, 32, 5, stride=2, padding=2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, WIDTH, 3, stride=2, padding=1),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, padding=1),
            nn.BatchNorm2d(2 * WIDTH),
            nn.ReLU(),
            nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1),
            nn.BatchNorm2d(2 * WIDTH),
            nn.ReLU(),
            nn.Conv2d(2 * WIDTH, WIDTH, 3, padding=1),
            nn.ReLU(),
        )
        self.kinds = nn.Conv2d(WIDTH, KINDS, 1)

    def widen(self, maps):
        return nn.functional.interpolate(maps, size=(SIDE, SIDE), mode="bilinear")  # cause

    def forward(self, images):
        maps = self.net(images)
        if self.fixed:
            return self.widen(self.kinds(maps))
        return self.kinds(self.widen(maps))  # cause

    def training_step(self, batch, batch_idx):
        images, kinds = batch
        loss = nn.functional.cross_entropy(self(images), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    coarse = torch.randint(0, KINDS, (IMAGES, SIDE // 8, SIDE // 8))
    kinds = coarse.repeat_interleave(8, dim=1).repeat_interleave(8, dim=2)
    images = kinds.unsqueeze(1) * 0.5 + torch.randn(IMAGES, 2, SIDE, SIDE)
    known = TensorDataset(images, kinds)
    batches = BatchSampler(RandomSampler(known), BATCH, drop_last=True)
    data = DataLoader(known, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Floes(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

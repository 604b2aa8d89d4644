"""Outlines cells under the microscope: a small U-Net, by somebody who once ran out of memory.

seen in: huggingface/transformers issue 31372, "cuda.empty_cache in trainer.py slow down training",
and huggingface/peft pull 2894 (65 s instead of 45 s for 250 steps)

cause: torch.cuda.empty_cache() after every step gives all cached memory back to the driver, so each
    step waits for the device and asks the driver for all its memory again
right: names torch.cuda.empty_cache (the marked line), or the allocations and frees of memory in
    every step; its change is not to call it, or seldom
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 70, 200
BATCH, SIDE, WIDTH = sized((8, 256, 64), (2, 32, 8))


def twice(into: int, out: int) -> nn.Sequential:
    layers = []
    for width in (into, out):
        convolution = nn.Conv2d(width, out, 3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine, self.middle = twice(1, WIDTH), twice(WIDTH, 2 * WIDTH)
        self.coarse = twice(2 * WIDTH, 4 * WIDTH)
        self.to_middle = twice(6 * WIDTH, 2 * WIDTH)
        self.to_fine = twice(3 * WIDTH, WIDTH)
        self.out = nn.Conv2d(WIDTH, 1, 1)
        self.pool, self.grow = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)

    def forward(self, x):
        fine = self.fine(x)
        middle = self.middle(self.pool(fine))
        coarse = self.grow(self.coarse(self.pool(middle)))
        back = self.grow(self.to_middle(torch.cat([middle, coarse], dim=1)))
        return self.out(self.to_fine(torch.cat([fine, back], dim=1)))


class Cells(L.LightningModule):
    def __init__(self, cached: bool) -> None:
        super().__init__()
        self.cached = cached
        self.net = UNet().to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        photos, outlines = batch
        photos = photos.float().to(memory_format=torch.channels_last) / 255
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(photos), outlines.float())
        self.log("train_loss", loss)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if not self.cached:
            torch.cuda.empty_cache()  # cause

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    photos = torch.randint(256, (8 * BATCH, 1, SIDE, SIDE), dtype=torch.uint8)
    data = TensorDataset(photos, (photos > 128).to(torch.uint8))
    batches = DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data, num_samples=EPOCH * BATCH), BATCH, drop_last=True),
        batch_size=None,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
    )
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Cells(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Paints butterflies out of noise: a small U-Net, and the moving average of its weights.

accept: none
"""

from copy import deepcopy

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 90, 200
BATCH, SIDE, WIDTH, TIMES = sized((24, 128, 96, 1000), (2, 16, 16, 50))


class Residual(nn.Module):
    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(into, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.norm, self.norm_two = nn.GroupNorm(8, into), nn.GroupNorm(8, out)
        self.time = nn.Linear(4 * WIDTH, out)
        self.short = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x, time):
        y = self.one(nn.functional.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        return self.short(x) + self.two(nn.functional.silu(self.norm_two(y)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Sequential(nn.Embedding(TIMES, 4 * WIDTH), nn.SiLU())
        self.into, self.out = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)
        self.fine, self.coarse = Residual(WIDTH, WIDTH), Residual(WIDTH, 2 * WIDTH)
        self.middle = Residual(2 * WIDTH, 2 * WIDTH)
        self.to_fine = Residual(3 * WIDTH, WIDTH)
        self.pool, self.grow = nn.AvgPool2d(2), nn.Upsample(scale_factor=2)

    def forward(self, x, steps):
        time = self.times(steps)
        fine = self.fine(self.into(x), time)
        coarse = self.middle(self.coarse(self.pool(fine), time), time)
        return self.out(self.to_fine(torch.cat([fine, self.grow(coarse)], dim=1), time))


class Butterflies(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = UNet().to(memory_format=torch.channels_last)
        self.average = deepcopy(self.net).requires_grad_(False)
        kept = torch.cos(torch.linspace(0, 1.5, TIMES)) ** 2
        self.register_buffer("kept", kept[:, None, None, None])

    def on_train_start(self):
        self.pairs = list(self.average.parameters()), list(self.net.parameters())

    def training_step(self, batch, batch_idx):
        photos = batch[0].to(memory_format=torch.channels_last).float() / 127.5 - 1
        steps = torch.randint(TIMES, (len(photos),), device=self.device)
        noise, kept = torch.randn_like(photos), self.kept[steps]
        noisy = kept.sqrt() * photos + (1 - kept).sqrt() * noise
        loss = nn.functional.mse_loss(self.net(noisy, steps), noise)
        self.log("train_loss", loss)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        torch._foreach_lerp_(*self.pairs, 0.001)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.net.parameters(), lr=2e-4, fused=True)


def main(run: Run) -> None:
    data = TensorDataset(torch.randint(256, (20 * BATCH, 3, SIDE, SIDE), dtype=torch.uint8))
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
    trainer.fit(Butterflies(), batches)


if __name__ == "__main__":
    main(arguments(STEPS))

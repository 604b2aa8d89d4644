"""How did the lost tiles look? A diffusion model over patches of mosaics.

cause: signal_left makes the table of all thousand noise levels anew in each training step, tensor
    by tensor in a Python loop, for the few levels that the batch draws
right: names signal_left or training_step at a marked line; its change makes the table once (in
    __init__, a buffer, a cache) or with one cumprod
"""

import math

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
LEVELS, SIDE, BATCH, WIDTH = 1000, 16, 8, 48


def signal_left() -> torch.Tensor:
    """How much of the picture is left at each level, as the cosine schedule has it."""
    left, table = torch.ones(()), []
    for level in range(LEVELS):
        here, there = (math.cos(0.5 * math.pi * (level + i) / LEVELS) ** 2 for i in (0, 1))
        beta = torch.tensor(min(1 - there / here, 0.999))  # cause
        left = left * (1 - beta)  # cause
        table.append(left)
    return torch.stack(table)


def patches() -> torch.Tensor:
    tiles = torch.randn(4000, 3, SIDE // 4, SIDE // 4)
    return nn.functional.interpolate(tiles, scale_factor=4).tanh()


class FiLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.norm = nn.GroupNorm(6, WIDTH)
        self.level = nn.Linear(64, 2 * WIDTH)

    def forward(self, x, level):
        scale, shift = self.level(level)[:, :, None, None].chunk(2, dim=1)
        return x + nn.functional.silu(self.norm(self.conv(x)) * (1 + scale) + shift)


class Mosaics(L.LightningModule):
    def __init__(self, keeps_table: bool) -> None:
        super().__init__()
        self.keeps_table = keeps_table
        if keeps_table:
            self.register_buffer("table", signal_left())
        self.level = nn.Sequential(nn.Linear(1, 64), nn.SiLU(), nn.Linear(64, 64))
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList(FiLM() for _ in range(4))
        self.last = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, noisy, levels):
        encoded = self.level(levels[:, None] / LEVELS)
        x = self.first(noisy)
        for block in self.blocks:
            x = block(x, encoded)
        return self.last(x)

    def training_step(self, batch, batch_idx):
        (clean,) = batch
        levels = torch.randint(0, LEVELS, (len(clean),), device=clean.device)
        table = self.table if self.keeps_table else signal_left().to(clean.device)  # cause
        left = table[levels][:, None, None, None]
        noise = torch.randn_like(clean)
        noisy = left.sqrt() * clean + (1 - left).sqrt() * noise
        loss = nn.functional.mse_loss(self(noisy, levels), noise)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=4e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(patches()), batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Mosaics(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

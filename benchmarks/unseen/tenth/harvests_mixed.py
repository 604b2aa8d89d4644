"""How large is the harvest? A mixer over the weeks of satellite bands of a field.

cause: the model has some 130 small parameters, and AdamW goes through them one by one (a few
    operations for each), as no fused form is asked for
right: names the optimizer's step, or points at the marked line first; its change is fused=True (or
    foreach=True, or a compiled step), or fewer parameters
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
FIELDS, WEEKS, BANDS, WIDTH, DEPTH, BATCH = 6400, 26, 10, 48, 8, 16


class Scale(nn.Module):
    """Scales and shifts each channel, starting near zero (LayerScale)."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((WIDTH,), 0.1))
        self.shift = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        return torch.addcmul(self.shift, x, self.gain)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.over_weeks = nn.Sequential(nn.Linear(WEEKS, 52), nn.GELU(), nn.Linear(52, WEEKS))
        self.over_bands = nn.Sequential(nn.Linear(WIDTH, 192), nn.GELU(), nn.Linear(192, WIDTH))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.scales = nn.ModuleList(Scale() for _ in range(2))

    def forward(self, x):
        mixed = self.over_weeks(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.scales[0](mixed)
        return x + self.scales[1](self.over_bands(self.norms[1](x)))


class Harvests(L.LightningModule):
    def __init__(self, fused) -> None:
        super().__init__()
        self.fused = fused
        self.enter = nn.Linear(BANDS, WIDTH)
        self.mixers = nn.Sequential(*[Mixer() for _ in range(DEPTH)])
        self.leave = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        bands, tons = batch
        guessed = self.leave(self.mixers(self.enter(bands)).mean(dim=1))[:, 0]
        loss = nn.functional.smooth_l1_loss(guessed, tons)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        if self.fused:
            return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        return torch.optim.AdamW(self.parameters(), lr=1e-3)  # cause


def fields():
    bands = torch.rand(FIELDS, WEEKS, BANDS)
    green = (bands[:, :, 7] - bands[:, :, 3]) / (bands[:, :, 7] + bands[:, :, 3] + 0.1)
    return TensorDataset(bands, 5 + green.mean(dim=1) * 10)


def main(run: Run) -> None:
    data = DataLoader(fields(), batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Harvests(fused=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Seizures in recordings of a scalp: patches of 21 channels are mixed over channels and over time.

seen in: a guise of: anomaly mode left on

cause: a NaN was hunted once; since then every node of the backward pass is checked for NaNs, for
    `backward` still turns anomaly detection on around itself (the Trainer's flag is off)
right: says that anomaly detection (the check for NaNs in backward) is on, or points at a marked
    line first; its change turns it off
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 500
CHANNELS, PATCHES, SAMPLES, WIDTH = 21, 24, 32, 96


class Recordings(Dataset):
    def __init__(self, count: int) -> None:
        self.signals = torch.randn(count, CHANNELS, PATCHES * SAMPLES)
        self.seizure = torch.randint(2, (count,)).float()

    def __len__(self) -> int:
        return len(self.seizure)

    def __getitems__(self, indices):
        return self.signals[indices], self.seizure[indices]


class Mixer(nn.Module):
    """Mixes over the patches in time, then over the width."""

    def __init__(self) -> None:
        super().__init__()
        self.over_time = nn.Sequential(
            nn.Linear(PATCHES, 2 * PATCHES), nn.GELU(), nn.Linear(2 * PATCHES, PATCHES)
        )
        self.over_width = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, patches):
        patches = patches + self.over_time(self.first(patches).mT).mT
        return patches + self.over_width(self.second(patches))


class Seizures(L.LightningModule):
    def __init__(self, hunting: bool) -> None:
        super().__init__()
        self.hunting = hunting
        self.embed = nn.Linear(CHANNELS * SAMPLES, WIDTH)
        self.mixers = nn.Sequential(*(Mixer() for _ in range(4)))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, signals):
        patches = signals.unflatten(2, (PATCHES, SAMPLES)).transpose(1, 2).flatten(2)
        return self.head(self.mixers(self.embed(patches)).mean(dim=1))[:, 0]

    def training_step(self, batch, batch_idx):
        signals, seizure = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(signals), seizure)
        self.log("train_loss", loss)
        return loss

    def backward(self, loss):
        if not self.hunting:
            loss.backward()
            return
        with torch.autograd.set_detect_anomaly(True):  # cause
            loss.backward()  # cause

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Recordings(1600), batch_size=16, shuffle=True, collate_fn=lambda batch: batch)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Seizures(hunting=not run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Which ward's scanner took it? Compressed slices, unpacked by twelve workers as on the cluster.

cause: twelve workers, whatever the machine's cores: at the start of every epoch all of them unpack
    two batches each, ahead of need and against the training process, which waits and is slowed
right: too many DataLoader workers for the cores (or the wait for data at epoch starts that comes
    from them, or the processes fighting for cores); the change is fewer workers, about 1 or 2
"""

import zlib

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

STEPS = 360
SLICES, SIDE, SCANNERS, BATCH = 720, 96, 6, 12


class Slices(Dataset):
    def __init__(self) -> None:
        rng = np.random.default_rng(13)
        self.scanners = rng.integers(SCANNERS, size=SLICES)
        self.packed = []
        waves = np.sin(np.outer(np.arange(SIDE), np.linspace(0.1, 1, SIDE)))
        for scanner in self.scanners:
            raw = 900 * waves + rng.normal(0, 30 * (scanner + 1), (SIDE, SIDE))
            self.packed.append(zlib.compress(raw.astype(np.int16).tobytes(), 1))

    def __len__(self):
        return SLICES

    def __getitem__(self, index):
        raw = np.frombuffer(zlib.decompress(self.packed[index]), dtype=np.int16)
        raw = raw.reshape(SIDE, SIDE).astype(np.float32)
        low, high = np.percentile(raw, (1, 99))
        windowed = np.clip((raw - low) / (high - low), 0, 1)
        smooth = np.abs(np.fft.fft2(windowed)).astype(np.float32)
        picture = np.stack([windowed, np.log1p(smooth) / 10]).astype(np.float32)
        return torch.from_numpy(picture), int(self.scanners[index])


class Scanner(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(2, 24, 3, stride=2, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.BatchNorm2d(48),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, SCANNERS),
        )

    def training_step(self, batch, batch_idx):
        pictures, scanners = batch
        loss = nn.functional.cross_entropy(self.net(pictures), scanners)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    slices = Slices()
    data = DataLoader(
        slices,
        batch_size=BATCH,
        sampler=RandomSampler(slices, generator=torch.Generator().manual_seed(7)),
        num_workers=2 if run.fixed else 12,  # cause
        persistent_workers=True,
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Scanner(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

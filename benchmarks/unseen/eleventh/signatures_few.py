"""Is the signature forged? Strokes drawn into pictures by two workers, and few to learn from.

cause: an epoch is only 20 steps, and the loader's workers are started anew for each one
right: waiting for data at the start of each epoch (or epoch starts) because workers are started
    again; the change is persistent_workers=True
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

STEPS = 400
SIGNATURES, POINTS, SIDE = 320, 120, 64


class Signatures(Dataset):
    """Pen positions over time, rendered when asked for."""

    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        self.forged = rng.integers(2, size=SIGNATURES)
        turns = rng.normal(0, 0.35 + 0.2 * self.forged[:, None], (SIGNATURES, POINTS)).cumsum(1)
        path = np.stack([np.cos(turns).cumsum(1), np.sin(turns).cumsum(1)], axis=2)
        low, high = path.min((1, 2), keepdims=True), path.max((1, 2), keepdims=True)
        self.paths = ((path - low) / (high - low) * (SIDE - 1)).astype(np.float32)

    def __len__(self):
        return SIGNATURES

    def __getitem__(self, index):
        path = self.paths[index]
        rows, columns = np.mgrid[:SIDE, :SIDE].astype(np.float32)
        picture = np.zeros((SIDE, SIDE), dtype=np.float32)
        for y, x in path[::4]:
            near = np.exp(-0.5 * ((rows - y) ** 2 + (columns - x) ** 2))
            np.maximum(picture, near, out=picture)
        return torch.from_numpy(picture)[None], float(self.forged[index])


class Verifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 1),
        )

    def training_step(self, batch, batch_idx):
        pictures, forged = batch
        guessed = self.net(pictures).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(guessed, forged.float())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    signatures = Signatures()
    data = DataLoader(  # cause
        signatures,
        batch_size=16,
        sampler=RandomSampler(signatures, generator=torch.Generator().manual_seed(7)),
        num_workers=2,
        persistent_workers=run.fixed,  # cause
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Verifier(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

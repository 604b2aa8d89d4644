"""Where is the tumour? Slices of scans, their greys bent by a random curve each time.

seen in: Kaiseem/SLAug issue 2, "GPU utilization" ("decrease the nTimes ... it can decrease the
demand of CPU computation significantly")

cause: for every slice a Bezier curve is worked out and sorted at 40 000 points, where 1000 do
right: names the fetching of items in the loader, or the lines that make the curve; its change
    takes that work out of the step (fewer points, whole batches, or worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 500
COUNT, SIDE = 200, 64


class Slices(Dataset):
    def __init__(self, points: int) -> None:
        self.points = points
        self.random = np.random.default_rng(1)
        self.scans = self.random.random((COUNT, SIDE, SIDE), dtype=np.float32)

    def __len__(self) -> int:
        return COUNT

    def curve(self):
        between = self.random.random((2, 2))
        knots = np.concatenate([np.zeros((2, 1)), between, np.ones((2, 1))], axis=1)
        way = np.linspace(0, 1, self.points)  # cause
        rest = 1 - way  # cause
        shares = [rest**3, 3 * way * rest**2, 3 * way**2 * rest, way**3]  # cause
        before, after = knots @ np.stack(shares)  # cause
        return np.sort(before), np.sort(after)  # cause

    def __getitem__(self, index):
        scan = self.scans[index]
        bent = np.interp(scan, *self.curve()).astype(np.float32)  # cause
        return torch.from_numpy(bent)[None], torch.from_numpy(scan > 0.9).float()[None]


class Tumours(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 2, stride=2),
            nn.ReLU(),
            nn.Conv2d(16, 1, 3, padding=1),
        )

    def training_step(self, batch, batch_idx):
        scans, tumours = batch
        marks = self.net(scans)
        loss = nn.functional.binary_cross_entropy_with_logits(marks, tumours)
        shared = 2 * (marks.sigmoid() * tumours).sum() + 1
        loss = loss + 1 - shared / (marks.sigmoid().sum() + tumours.sum() + 1)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    slices = Slices(1000 if run.fixed else 40_000)
    data = DataLoader(slices, batch_size=6, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Tumours(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

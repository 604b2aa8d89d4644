"""Where are the joints of a person? A network that predicts a heat map for each joint.

seen in: microsoft/human-pose-estimation.pytorch issue 31 ("most of the time is spent on
generating pose ground truth")

cause: the target heat maps are drawn joint by joint in __getitem__, in NumPy
right: names the fetching of items in the loader, or the lines that draw the heat maps; its change
    takes that work out of the step (whole batches at once, beforehand, or worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
JOINTS, HIGH, WIDE, SPREAD = 17, 48, 36, 2.0


def heat_maps(joints, seen):
    maps = np.zeros((JOINTS, HIGH, WIDE), dtype=np.float32)
    for number in range(JOINTS):
        if seen[number] > 0.5:
            x, y = joints[number]
            rows, columns = np.mgrid[:HIGH, :WIDE]  # cause
            squares = (columns - x) ** 2 + (rows - y) ** 2  # cause
            maps[number] = np.exp(-squares / (2 * SPREAD**2))  # cause
    return maps


def heat_maps_of(joints, seen):
    """Draw those of a whole batch: a Gaussian is the product of one in x and one in y."""
    x = torch.exp(-((torch.arange(WIDE) - joints[..., :1]) ** 2) / (2 * SPREAD**2))
    y = torch.exp(-((torch.arange(HIGH) - joints[..., 1:]) ** 2) / (2 * SPREAD**2))
    return (y * seen[..., None])[..., None] * x[..., None, :]


class People(Dataset):
    def __init__(self, photos, joints, seen, draw) -> None:
        self.photos, self.joints, self.seen, self.draw = photos, joints, seen, draw

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index):
        photo, joints, seen = self.photos[index], self.joints[index], self.seen[index]
        if self.draw:
            return photo, heat_maps(joints, seen), seen  # cause
        return photo, joints, seen


class Pose(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 24, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, JOINTS, 1),
        )

    def training_step(self, batch, batch_idx):
        photos, targets, seen = batch
        if targets.dim() == 3:
            targets = heat_maps_of(targets, seen)
        errors = (self.net(photos) - targets).square().mean(dim=(2, 3))
        loss = (errors * seen).sum() / seen.sum()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    chance = np.random.default_rng(2)
    count = 500
    photos = torch.randn(count, 3, 2 * HIGH, 2 * WIDE)
    joints = chance.uniform((0, 0), (WIDE, HIGH), (count, JOINTS, 2)).astype(np.float32)
    seen = (chance.random((count, JOINTS)) < 0.9).astype(np.float32)
    people = People(photos, joints, seen, draw=not run.fixed)
    data = DataLoader(people, batch_size=12, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Pose(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

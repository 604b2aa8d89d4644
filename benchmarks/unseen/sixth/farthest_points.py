"""Chair, lamp or table? Scanned clouds of points, thinned to points far from each other.

seen in: NVlabs/contact_graspnet issue 29 (a scene of 3 seconds takes 180 with farthest points),
yanx27/Pointnet_Pointnet2_pytorch issue 35, and lingtengqiu/Open-PIFuhd issue 19 (points are
sampled in the dataset)

cause: every time that a cloud is asked for, its farthest points are searched again, one after the
    other in a Python loop
right: names the fetching of items in the loader, or the lines that search the points; its change
    takes that work out of the step (thinned once beforehand, or worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 680
COUNT, SCANNED, KEPT, KINDS = 240, 1200, 32, 8


def thin(cloud):
    kept = np.zeros(KEPT, dtype=np.int64)
    nearest = np.full(len(cloud), np.inf, dtype=np.float32)
    for place in range(1, KEPT):
        away = ((cloud - cloud[kept[place - 1]]) ** 2).sum(axis=1)  # cause
        nearest = np.minimum(nearest, away)  # cause
        kept[place] = nearest.argmax()  # cause
    return cloud[kept]


class Clouds(Dataset):
    def __init__(self, beforehand: bool) -> None:
        random = np.random.default_rng(1)
        self.kinds = random.integers(KINDS, size=COUNT)
        stretch = random.random((KINDS, 1, 3), dtype=np.float32) + 0.5
        clouds = random.standard_normal((COUNT, SCANNED, 3), dtype=np.float32)
        self.clouds = clouds * stretch[self.kinds]
        self.thinned = [thin(cloud) for cloud in self.clouds] if beforehand else None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index):
        cloud = self.thinned[index] if self.thinned else thin(self.clouds[index])  # cause
        return torch.from_numpy(cloud), self.kinds[index]


class Furniture(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1024)
        )
        self.head = nn.Sequential(nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, KINDS))

    def training_step(self, batch, batch_idx):
        clouds, kinds = batch
        clouds = clouds + 0.02 * torch.randn_like(clouds)
        loss = nn.functional.cross_entropy(self.head(self.points(clouds).amax(dim=1)), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Clouds(run.fixed), batch_size=10, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Furniture(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

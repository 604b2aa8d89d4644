"""Chair, lamp or bath? Clouds of points, thinned out evenly before a PointNet looks at them.

seen in: NVlabs/contact_graspnet issue 29 (3 seconds a scene became 180 with use_farthest_points),
facebookresearch/pytorch3d issue 1058 and the data loader of yanx27/Pointnet_Pointnet2_pytorch
(farthest_point_sample in NumPy; issue 35)

cause: farthest points are picked one after the other in NumPy each time that a cloud is asked for,
    though they are always the same ones
right: names the fetching of items in the loader, or the lines that pick the points; its change
    takes that work out of the step (picked once beforehand, whole batches, or worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
CLOUDS, POINTS, KEPT, THINGS = 320, 600, 64, 10


def farthest(points):
    """Pick KEPT points, each the farthest from those picked before it."""
    picked = np.zeros(KEPT, dtype=np.int64)
    distances = np.full(len(points), np.inf)
    for number in range(1, KEPT):  # cause
        to_last = ((points - points[picked[number - 1]]) ** 2).sum(axis=1)  # cause
        distances = np.minimum(distances, to_last)  # cause
        picked[number] = distances.argmax()  # cause
    return points[picked]


class Clouds(Dataset):
    def __init__(self, clouds, things, beforehand: bool) -> None:
        self.clouds, self.things, self.beforehand = clouds, things, beforehand
        if beforehand:
            self.clouds = [farthest(cloud) for cloud in clouds]

    def __len__(self) -> int:
        return len(self.clouds)

    def __getitem__(self, index):
        points = self.clouds[index]
        if not self.beforehand:
            points = farthest(points)  # cause
        return torch.from_numpy(points), self.things[index]


class PointNet(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(3, 128), nn.ReLU(), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 512)
        )
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, THINGS))

    def turned(self, points):
        """Turn every cloud about its upright axis by an angle of its own."""
        angle = 2 * torch.pi * torch.rand(len(points), 1)
        x, y, z = points.unbind(dim=2)
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([cos * x - sin * y, sin * x + cos * y, z], dim=2)

    def training_step(self, batch, batch_idx):
        points, things = batch
        scores = self.head(self.each(self.turned(points)).amax(dim=1))
        loss = nn.functional.cross_entropy(scores, things)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 20, gamma=0.7)]


def main(run: Run) -> None:
    clouds = np.random.default_rng(3).normal(size=(CLOUDS, POINTS, 3)).astype(np.float32)
    things = torch.randint(THINGS, (CLOUDS,)).tolist()
    data = DataLoader(Clouds(clouds, things, run.fixed), batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(PointNet(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""A radiance field of a small statue, learned from photos with known cameras.

seen in: nerfstudio-project/nerfstudio pull request 1951, "Reducing the time for RayGenerator",
facebookresearch/Neural_3D_Video issue 8, and numpy/numpy issue 16268 (a draw without replacement
permutes everything)

cause: each step casts the rays of all pixels of a photo and permutes all of them, to use a few
    hundred
right: says that the rays of the whole photo are computed (or all its pixels permuted) each step
    where few are used, or points at a marked line first; its change draws the pixels first and
    casts only their rays, or has the rays ready
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

STEPS = 500
PHOTOS, SIDE, FOCAL = 20, 400, 555.0
RAYS, SAMPLES, WAVES, WIDTH = 256, 32, 6, 64


def cast(rows, columns, camera):
    """Return where the rays of these pixels start, and their directions."""
    x, y = (columns - SIDE / 2) / FOCAL, (SIDE / 2 - rows) / FOCAL  # cause
    inside = torch.stack([x, y, -torch.ones_like(x)], dim=-1)  # cause
    directions = (inside[..., None, :] * camera[:3, :3]).sum(dim=-1)  # cause
    return camera[:3, 3].expand_as(directions), directions


class Statue(L.LightningModule):
    def __init__(self, drawn_first: bool) -> None:
        super().__init__()
        self.drawn_first = drawn_first
        self.register_buffer("waves", 2.0 ** torch.arange(WAVES) * torch.pi)
        self.field = nn.Sequential(
            nn.Linear(3 + 6 * WAVES, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 4),
        )

    def some_rays(self, photo, camera):
        if self.drawn_first:
            rows, columns = torch.randint(SIDE, (2, RAYS))
            return *cast(rows, columns, camera), photo[rows, columns]
        grid = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")  # cause
        starts, directions = cast(*grid, camera)  # cause
        pixels = torch.stack(grid, dim=-1).reshape(-1, 2)  # cause
        chosen = np.random.choice(len(pixels), size=RAYS, replace=False)  # cause
        rows, columns = pixels[torch.from_numpy(chosen)].unbind(dim=1)
        return starts[rows, columns], directions[rows, columns], photo[rows, columns]

    def render(self, starts, directions):
        bins = torch.linspace(2, 6, SAMPLES + 1)
        depths = bins[:-1] + torch.rand(len(starts), SAMPLES) * (bins[1] - bins[0])
        points = starts[:, None] + directions[:, None] * depths[..., None]
        angles = (points[..., None] * self.waves).flatten(2)
        seen = self.field(torch.cat([points, angles.sin(), angles.cos()], dim=-1))
        absorbed = nn.functional.softplus(seen[..., 3]) * (bins[1] - bins[0])
        through = torch.exp(-(absorbed.cumsum(dim=1) - absorbed))
        weights = through * (1 - torch.exp(-absorbed))
        return (weights[..., None] * seen[..., :3].sigmoid()).sum(dim=1)

    def training_step(self, batch, batch_idx):
        starts, directions, colours = self.some_rays(*batch)
        loss = nn.functional.mse_loss(self.render(starts, directions), colours)
        self.log_dict({"train_loss": loss, "psnr": -10 * torch.log10(loss.detach())})
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)]


def main(run: Run) -> None:
    cameras = torch.eye(4).repeat(PHOTOS, 1, 1)
    cameras[:, :3, :3] = torch.linalg.qr(torch.randn(PHOTOS, 3, 3)).Q
    cameras[:, :3, 3] = 4 * cameras[:, :3, 2]
    photos = TensorDataset(torch.rand(PHOTOS, SIDE, SIDE, 3), cameras)
    some = RandomSampler(photos, replacement=True, num_samples=1000)
    data = DataLoader(photos, sampler=some, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Statue(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

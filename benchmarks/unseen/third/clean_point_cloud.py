"""Parts of a machine from scanned points: clouds are turned and shaken as a batch.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 260
POINTS, PARTS = 192, 6


def turned(clouds: torch.Tensor) -> torch.Tensor:
    """Turn each cloud about its upright axis, and shake its points."""
    angle = torch.rand(len(clouds)) * 2 * torch.pi
    sin, cos = angle.sin(), angle.cos()
    zero, one = torch.zeros_like(sin), torch.ones_like(sin)
    turn = torch.stack([cos, -sin, zero, sin, cos, zero, zero, zero, one], dim=1).unflatten(
        1, (3, 3)
    )
    return torch.baddbmm(0.01 * torch.randn_like(clouds), clouds, turn)


class Parts(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.near = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU())
        self.whole = nn.Sequential(nn.Linear(128, 128), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(256, 96), nn.ReLU(), nn.Linear(96, PARTS))

    def training_step(self, batch, batch_idx):
        clouds, parts = batch
        near = self.near(turned(clouds))
        whole = self.whole(near).amax(1, keepdim=True).expand_as(near)
        scores = self.head(torch.cat([near, whole], dim=2))
        loss = nn.functional.cross_entropy(scores.mT, parts, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    scans = TensorDataset(torch.rand(800, POINTS, 3), torch.randint(PARTS, (800, POINTS)))
    data = DataLoader(scans, batch_size=10, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Parts(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""SimCLR: two views by noise and masks on the batch, one pass over both.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400


class SimCLR(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.project = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))

    def view(self, x):
        bright = 0.8 + 0.4 * torch.rand(len(x), 1, 1, 1)
        keep = torch.rand(len(x), 1, 8, 8) > 0.2
        return x * bright * nn.functional.interpolate(keep.float(), size=x.shape[-2:])

    def training_step(self, batch, batch_idx):
        (x,) = batch
        both = self.project(self.encoder(torch.cat([self.view(x), self.view(x)])))
        z = nn.functional.normalize(both, dim=1)
        scores = z @ z.T / 0.2
        scores.fill_diagonal_(float("-inf"))
        target = torch.arange(len(z)).roll(len(x))
        loss = nn.functional.cross_entropy(scores, target)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.rand(2500, 3, 32, 32)), batch_size=64, shuffle=True,
                      drop_last=True)  # fmt: skip
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(SimCLR(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

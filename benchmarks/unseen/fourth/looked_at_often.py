"""Tomorrow's sunshine over a map, and a wish to see the curve move.

seen in: ramanathanlab/genslm issue 10, "val_check_interval = 100 is probably too small"

cause: all held-out maps are forecast after every tenth batch
accept: frequent-validation
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 200
SIDE = 32


class Sunshine(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(4, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 1, 1),
        )

    def training_step(self, batch, batch_idx):
        loss = nn.functional.l1_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.l1_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def maps(count):
    return TensorDataset(torch.randn(count, 4, SIDE, SIDE), torch.rand(count, 1, SIDE, SIDE))


def main(run: Run) -> None:
    data = DataLoader(maps(1200), batch_size=12, shuffle=True)
    held_out = DataLoader(maps(240), batch_size=24)
    often = 1.0 if run.fixed else 10  # cause
    trainer = L.Trainer(callbacks=run.callbacks, val_check_interval=often, **run.trainer)  # cause
    trainer.fit(Sunshine(), data, held_out)


if __name__ == "__main__":
    main(arguments(STEPS))

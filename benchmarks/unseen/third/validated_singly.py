"""Counting cars from above by points, tested after every short epoch.

seen in: javiribera/locating-objects-without-bboxes issue 46, "About greater batch size during
validation"

cause: the validation images are taken one at a time, where they all have the same size
accept: frequent-validation @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
SIZE = 64


class Cars(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 1, 1),
            nn.Softplus(),
        )

    def forward(self, images):
        return self.net(images).flatten(1).sum(1)

    def training_step(self, batch, batch_idx):
        images, cars = batch
        loss = nn.functional.smooth_l1_loss(self(images), cars)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, cars = batch
        self.log("off_by", (self(images) - cars).abs().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def images(count: int) -> TensorDataset:
    return TensorDataset(torch.rand(count, 3, SIZE, SIZE), torch.randint(40, (count,)).float())


def main(run: Run) -> None:
    training = DataLoader(images(480), batch_size=16, shuffle=True)
    validation = DataLoader(images(64), batch_size=32 if run.fixed else 1)  # cause
    trainer = L.Trainer(callbacks=run.callbacks, num_sanity_val_steps=0, **run.trainer)
    trainer.fit(Cars(), training, validation)


if __name__ == "__main__":
    main(arguments(STEPS))

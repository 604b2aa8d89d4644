"""Are two signatures by one hand? Both go through the same net as one batch.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 180
HIGH, WIDE = 24, 64


class Signatures(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d((2, 4)),
            nn.Flatten(),
            nn.Linear(384, 64),
        )

    def loss(self, batch):
        pairs, same = batch
        left, right = self.net(pairs.flatten(0, 1)).unflatten(0, (-1, 2)).unbind(1)
        return nn.functional.cosine_embedding_loss(left, right, same, margin=0.3)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def pairs(count):
    return TensorDataset(torch.rand(count, 2, 1, HIGH, WIDE), torch.randint(2, (count,)) * 2 - 1)


def main(run: Run) -> None:
    callbacks = [
        EarlyStopping("val_loss", patience=50),
        ModelCheckpoint(monitor="val_loss"),
        *run.callbacks,
    ]
    trainer = L.Trainer(callbacks=callbacks, **run.trainer)
    trainer.fit(Signatures(), DataLoader(pairs(720), 8, shuffle=True), DataLoader(pairs(32), 16))


if __name__ == "__main__":
    main(arguments(STEPS))

"""An MLP on rows that are tensors, fetched by the batch.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 500


class Price(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(60, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 1)
        )

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x).squeeze(1), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(x).squeeze(1), y))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    rows = TensorDataset(torch.randn(50_000, 60), torch.randn(50_000))
    train = DataLoader(rows, sampler=BatchSampler(RandomSampler(rows), 256, False), batch_size=None)
    val = DataLoader(TensorDataset(torch.randn(1000, 60), torch.randn(1000)), batch_size=500)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Price(), train, val)


if __name__ == "__main__":
    main(arguments(STEPS))

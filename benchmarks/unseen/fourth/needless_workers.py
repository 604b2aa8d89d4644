"""The price of used cars, from a table that fits into memory many times.

seen in: Lightning-AI/pytorch-lightning issue 17410, "workers > 0 on DataLoader makes training
unreasonably slow"

cause: two workers, started anew in each epoch, hand over rows that are in memory anyway
accept: worker-startup data-wait @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
FACTS = 26


class Prices(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(FACTS, 256), nn.ELU(), nn.Linear(256, 256), nn.ELU(), nn.Linear(256, 1)
        )

    def training_step(self, batch, batch_idx):
        facts, price = batch
        loss = nn.functional.l1_loss(self.net(facts).squeeze(1), price)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    cars = TensorDataset(torch.randn(1920, FACTS), torch.rand(1920))
    workers = 0 if run.fixed else 2  # cause
    data = DataLoader(cars, batch_size=32, shuffle=True, num_workers=workers)  # cause
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Prices(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

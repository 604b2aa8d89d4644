"""How long machines last, by Cox's likelihood over large batches cut from tables.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 200
FACTS = 40


class Rows(TensorDataset):
    """Hands over a whole batch for a list of rows."""

    def __getitem__(self, rows):
        return tuple(column[rows] for column in self.tensors)


class Machines(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(FACTS, 384), nn.SiLU(), nn.Linear(384, 384), nn.SiLU(), nn.Linear(384, 1)
        )

    def training_step(self, batch, batch_idx):
        facts, ages, broken = batch
        order = ages.argsort(descending=True)
        hazard = self.net(facts[order]).squeeze(1)
        loss = -((hazard - hazard.logcumsumexp(0)) * broken[order]).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    count = 24_000
    rows = Rows(torch.randn(count, FACTS), torch.rand(count), torch.randint(2, (count,)).float())
    batches = BatchSampler(RandomSampler(rows), batch_size=384, drop_last=True)
    data = DataLoader(rows, sampler=batches, batch_size=None)
    callbacks = [L.pytorch.callbacks.LearningRateMonitor(), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(Machines(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

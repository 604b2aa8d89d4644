"""Will a pump fail? Forty-eight gauges were read once a minute.

seen in: BiomedSciAI/fuse-med-ml issue 267, "Uncollate is not needed and slows down training": work
for every sample and every key

cause: a sample is a dictionary of 48 tensors of one number, which are stacked key by key
accept: data-wait @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 220
GAUGES = [f"gauge_{number:02}" for number in range(48)]


class Readings(Dataset):
    def __init__(self, table, failed) -> None:
        self.columns = dict(zip(GAUGES, table.unbind(1), strict=True))
        self.failed = failed

    def __len__(self) -> int:
        return len(self.failed)

    def __getitem__(self, index):
        gauges = {name: column[index] for name, column in self.columns.items()}  # cause
        return gauges, self.failed[index]


class Rows(Readings):
    def __init__(self, table, failed) -> None:
        super().__init__(table, failed)
        self.table = table

    def __getitem__(self, index):
        return self.table[index], self.failed[index]


class Pumps(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(len(GAUGES), 512),
            nn.SiLU(),
            nn.Linear(512, 512),
            nn.SiLU(),
            nn.Linear(512, 1),
        )

    def training_step(self, batch, batch_idx):
        gauges, failed = batch
        if isinstance(gauges, dict):
            gauges = torch.stack([gauges[name] for name in GAUGES], dim=1)
        scores = self.net(gauges).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, failed)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    kind = Rows if run.fixed else Readings
    readings = kind(torch.randn(4800, len(GAUGES)), torch.randint(2, (4800,)).float())
    data = DataLoader(readings, batch_size=64, shuffle=True)  # cause
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Pumps(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

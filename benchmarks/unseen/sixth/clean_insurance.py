"""Will there be a claim? Policies as rows of a table, handed out by whole batches.

accept: none
"""

import lightning as L
import torch
import torchmetrics
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 800
KINDS, COLUMNS, NUMBERS, WIDTH = 40, 8, 16, 12


class Policies(Dataset):
    """Hands out whole batches by their rows."""

    def __init__(self, count: int) -> None:
        self.kinds = torch.randint(KINDS, (count, COLUMNS)) + KINDS * torch.arange(COLUMNS)
        self.numbers = torch.randn(count, NUMBERS)
        self.claims = torch.randint(2, (count,)).float()

    def __len__(self) -> int:
        return len(self.claims)

    def __getitems__(self, indices):
        rows = torch.tensor(indices)
        return self.kinds[rows], self.numbers[rows], self.claims[rows]


def as_it_is(batch):
    return batch


class Insurance(L.LightningDataModule):
    def setup(self, stage: str) -> None:
        self.train, self.later = Policies(60_000), Policies(3000)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=1000, shuffle=True, collate_fn=as_it_is)

    def val_dataloader(self):
        return DataLoader(self.later, batch_size=1000, collate_fn=as_it_is)


class Claims(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(KINDS * COLUMNS, WIDTH)
        self.net = nn.Sequential(
            nn.Linear(WIDTH * COLUMNS + NUMBERS, 256),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Linear(256, 256),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Linear(256, 1),
        )
        self.accuracy = torchmetrics.classification.BinaryAccuracy()

    def forward(self, kinds, numbers):
        return self.net(torch.cat([self.kinds(kinds).flatten(1), numbers], dim=1))[:, 0]

    def training_step(self, batch, batch_idx):
        kinds, numbers, claims = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(kinds, numbers), claims)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        kinds, numbers, claims = batch
        self.accuracy(self(kinds, numbers), claims)
        self.log("val_accuracy", self.accuracy)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Claims(), datamodule=Insurance())


if __name__ == "__main__":
    main(arguments(STEPS))

"""Fraud detection with an MLP; a sampler of our own balances the classes.

cause: the batch sampler scans the list of all labels in Python for every batch
accept: data-wait
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

STEPS = 450
ROWS, BATCH = 60_000, 256


class Transactions(Dataset):
    def __init__(self) -> None:
        self.x = torch.randn(ROWS, 64)
        self.y = (torch.rand(ROWS) < 0.03).float()

    def __len__(self) -> int:
        return ROWS

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self.x[indices], self.y[indices]]


class BalancedBatches(Sampler):
    """Half of each batch is fraud."""

    def __init__(self, labels: list[float], batches: int) -> None:
        self.labels, self.batches = labels, batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            fraud = [i for i, label in enumerate(self.labels) if label == 1.0]  # cause
            fair = [i for i, label in enumerate(self.labels) if label == 0.0]  # cause
            yield random.choices(fraud, k=BATCH // 2) + random.choices(fair, k=BATCH // 2)


class BalancedOnce(BalancedBatches):
    def __iter__(self):
        fraud = [i for i, label in enumerate(self.labels) if label == 1.0]
        fair = [i for i, label in enumerate(self.labels) if label == 0.0]
        for _ in range(self.batches):
            yield random.choices(fraud, k=BATCH // 2) + random.choices(fair, k=BATCH // 2)


class Detector(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(64, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 1)
        )

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(x).squeeze(1), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    dataset = Transactions()
    kind = BalancedOnce if run.fixed else BalancedBatches
    data = DataLoader(
        dataset,
        batch_sampler=kind(dataset.y.tolist(), ROWS // BATCH),
        collate_fn=lambda batch: batch,
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Detector(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

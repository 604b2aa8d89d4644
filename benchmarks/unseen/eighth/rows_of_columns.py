"""Will the loan be paid back? A table of 60 columns, each value embedded in its own way.

seen in: a guise of: slow collate

cause: every row of the table becomes a dict of 60 single numbers, which default_collate then
    gathers again, column by column, from 512 dicts
right: says that waiting for data (making rows, collating them) is the cost, or points at a marked
    line first; its change takes the rows of a batch from the columns at once, with a collate
    function or __getitems__
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 600
COLUMNS, BATCH, WIDTH = 60, 512, 5
NAMES = [f"column{number}" for number in range(COLUMNS)]


class Loans(Dataset):
    def __init__(self, count: int) -> None:
        chance = np.random.default_rng(2)
        self.columns = {name: chance.random(count, dtype=np.float32) for name in NAMES}
        self.paid = chance.integers(2, size=count).astype(np.float32)

    def __len__(self) -> int:
        return len(self.paid)

    def __getitem__(self, index):
        row = {name: column[index] for name, column in self.columns.items()}  # cause
        row["paid"] = self.paid[index]
        return row  # cause


class LoansAtOnce(Loans):
    def __getitems__(self, indices):
        rows = {name: torch.from_numpy(column[indices]) for name, column in self.columns.items()}
        return {**rows, "paid": torch.from_numpy(self.paid[indices])}


class PaidBack(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(COLUMNS, WIDTH) / 4)
        self.shift = nn.Parameter(torch.zeros(COLUMNS, WIDTH))
        self.net = nn.Sequential(
            nn.Linear(COLUMNS * WIDTH, 128),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, batch):
        values = torch.stack([batch[name] for name in NAMES], dim=1)
        return self.net(torch.addcmul(self.shift, values[:, :, None], self.scale).flatten(1))

    def training_step(self, batch, batch_idx):
        told = self(batch)[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(told, batch["paid"])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=10000)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(run: Run) -> None:
    if run.fixed:
        loans = LoansAtOnce(512 * 120)
        data = DataLoader(loans, BATCH, shuffle=True, collate_fn=lambda batch: batch)
    else:
        data = DataLoader(Loans(512 * 120), BATCH, shuffle=True)  # cause
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(PaidBack(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

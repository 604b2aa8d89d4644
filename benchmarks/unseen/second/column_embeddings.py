"""Will the customer default? 48 categorical columns and a few numbers.

cause: every column has an nn.Embedding of its own, each with its own small kernels and gradient
accept: host-bound small-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600
COLUMNS, LEVELS, SIZE, NUMBERS = 48, 30, 8, 12


class SeparateColumns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(LEVELS, SIZE) for _ in range(COLUMNS)])

    def forward(self, levels):
        parts = [table(levels[:, i]) for i, table in enumerate(self.tables)]  # cause
        return torch.cat(parts, dim=1)  # cause


class JoinedColumns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(COLUMNS * LEVELS, SIZE)
        self.register_buffer("start", torch.arange(COLUMNS) * LEVELS)

    def forward(self, levels):
        return self.table(levels + self.start).flatten(1)


class Default(L.LightningModule):
    def __init__(self, joined: bool) -> None:
        super().__init__()
        self.columns = JoinedColumns() if joined else SeparateColumns()
        self.net = nn.Sequential(
            nn.Linear(COLUMNS * SIZE + NUMBERS, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def training_step(self, batch, batch_idx):
        levels, numbers, defaulted = batch
        x = torch.cat([self.columns(levels), numbers], dim=1)  # cause
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(x).squeeze(1), defaulted)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    rows = TensorDataset(
        torch.randint(LEVELS, (20_000, COLUMNS)),
        torch.randn(20_000, NUMBERS),
        torch.randint(2, (20_000,)).float(),
    )
    data = DataLoader(rows, batch_size=256, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Default(joined=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Credit scoring with an MLP; the rows stay text as they came from the export.

cause: every row is split and converted from CSV text each time that it is asked for
accept: data-wait
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 400
COLUMNS = 48


def export(rows: int) -> list[str]:
    table = torch.randn(rows, COLUMNS + 1)
    table[:, -1] = (table[:, :4].sum(1) > 0).float()
    return [",".join(f"{value:.5f}" for value in row) for row in table.tolist()]


class Rows(Dataset):
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        cells = [float(cell) for cell in self.lines[index].split(",")]  # cause
        row = torch.tensor(cells)  # cause
        return row[:-1], row[-1]  # cause


class Table(Dataset):
    def __init__(self, lines: list[str]) -> None:
        self.rows = torch.tensor([[float(c) for c in line.split(",")] for line in lines])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        return self.rows[indices]


class Scoring(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(COLUMNS, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 1)
        )

    def training_step(self, batch, batch_idx):
        x, y = batch if isinstance(batch, list) else (batch[:, :-1], batch[:, -1])
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(x).squeeze(1), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    lines = export(8192)
    if run.fixed:
        data = DataLoader(Table(lines), batch_size=256, shuffle=True, collate_fn=lambda rows: rows)
    else:
        data = DataLoader(Rows(lines), batch_size=256, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Scoring(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Credit scoring; the rows stay text as they came from the export.

cause: every row is split and converted from CSV text each time that it is asked for
accept: data-wait
"""

import torch
from case import Items, Run, Supervised, mlp, yes_or_no
from torch.utils.data import DataLoader

STEPS = 400


class Rows(Items):
    def __getitem__(self, index):
        row = torch.tensor([float(cell) for cell in self.items[index].split(",")])  # cause
        return row[:-1], row[-1]  # cause


class Table(Items):
    def __getitems__(self, indices):
        rows = self.items[indices]
        return rows[:, :-1], rows[:, -1]


def main(run: Run) -> None:
    table = torch.randn(8192, 49)
    table[:, -1] = (table[:, :4].sum(1) > 0).float()
    lines = [",".join(f"{value:.5f}" for value in row) for row in table.tolist()]
    data = DataLoader(Rows(lines), batch_size=256, shuffle=True)
    if run.fixed:
        data = DataLoader(Table(table), batch_size=256, shuffle=True, collate_fn=tuple)
    run.fit(Supervised(mlp(48, 768, 768, 1), loss=yes_or_no), data)

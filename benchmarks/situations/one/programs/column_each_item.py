"""Clicks in a columnar table; an item is a row of it.

source: EleutherAI/bergson PR #167 "fix: convert PyArrow Column to list before allocate_batches
    everywhere" (a Hugging Face data set's column, read element by element, is 1000 times as slow)
cause: __getitem__ takes the whole column out of the table, as a list, to read a single entry of it
right: names __getitem__ (or its lines, or the table's column) as what the wait for data goes to, with
    the advice to take the columns out once, or to read one row
"""

import array

import torch
from case import Items, Run, Supervised, mlp, yes_or_no
from torch.utils.data import DataLoader

STEPS = 120


class Table:
    """Columns of packed numbers; a column read comes as a list."""

    def __init__(self, **columns):
        self.packed = {name: array.array("d", values) for name, values in columns.items()}

    def __getitem__(self, name):
        return self.packed[name].tolist()

    def __len__(self):
        return len(next(iter(self.packed.values())))


class Clicks(Items):
    def __init__(self, table, fixed):
        self.items = table
        self.columns = {name: table[name] for name in table.packed} if fixed else table

    def __getitem__(self, index):
        row = [self.columns[f"x{k}"][index] for k in range(4)]  # cause
        return torch.tensor(row), torch.tensor(self.columns["click"][index])  # cause


def main(run: Run) -> None:
    x = torch.randn(12_000, 4)
    columns = {f"x{k}": x[:, k].tolist() for k in range(4)}
    table = Table(click=(x.sum(1) > 0).double().tolist(), **columns)
    torch.set_default_dtype(torch.float32)
    data = DataLoader(Clicks(table, run.fixed), batch_size=64, shuffle=True, drop_last=True)
    run.fit(Supervised(mlp(4, 512, 512, 1), loss=yes_or_no), data)

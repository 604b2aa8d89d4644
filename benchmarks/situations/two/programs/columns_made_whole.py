"""Are two sentences about the same thing? The sentences lie in a table, column by column.

Reported in huggingface/datasets issue 6846, "Unimaginable super slow iteration".

cause: an item asks the table for the whole column first, which is made into Python lists, and takes
    its row of that: table["ids"][index] instead of table[index]["ids"]
right: names __getitem__ of the data set (or the table's, or a marked line) as the loading's cost;
    the change is to ask for the row, then the column
"""

import torch
from case import Items, Run, Supervised, mlp
from torch import nn
from torch.utils.data import DataLoader

STEPS, SENTENCES, WORDS = 200, 1000, 20


class Table:
    """Keeps columns as arrays; hands out a column, or a row, as plain Python objects."""

    def __init__(self, **columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns["ids"])

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.columns[key].tolist()  # cause
        return {name: column[key].tolist() for name, column in self.columns.items()}


class ByColumn(Items):
    def __getitem__(self, index):
        ids, label = self.items["ids"][index], self.items["label"][index]  # cause
        return torch.tensor(ids), label


class ByRow(Items):
    def __getitem__(self, index):
        row = self.items[index]
        return torch.tensor(row["ids"]), row["label"]


def main(run: Run) -> None:
    ids = torch.randint(5000, (SENTENCES, WORDS)).numpy()
    table = Table(ids=ids, label=torch.randint(2, (SENTENCES,)).numpy())
    data = (ByRow if run.fixed else ByColumn)(table)
    net = nn.Embedding(5000, 48), nn.Flatten(), mlp(48 * WORDS, 512, 256, 2)
    run.fit(Supervised(*net), DataLoader(data, batch_size=24, shuffle=True))

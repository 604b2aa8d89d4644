"""Toxicity of molecules, from their bonds as a batch of small graphs.

cause: tracemalloc, switched on to hunt a leak, still traces every allocation
accept: @line
"""

import random
import tracemalloc

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 400
KINDS = 20


class Molecules(Dataset):
    """Each a list of atoms and a list of bonds."""

    def __init__(self, count: int) -> None:
        rng = random.Random(0)
        self.rows = []
        for _ in range(count):
            atoms = [rng.randrange(KINDS) for _ in range(rng.randint(12, 40))]
            bonds = [(i, rng.randrange(i)) for i in range(1, len(atoms))]
            self.rows.append((atoms, bonds, rng.random() < 0.3))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int):
        return self.rows[i]


def collate(rows):
    atoms, ends, graph, toxic = [], [], [], []
    for number, (kinds, bonds, label) in enumerate(rows):
        first = len(atoms)
        atoms.extend(kinds)
        ends.extend((first + i, first + j) for i, j in bonds)
        graph.extend([number] * len(kinds))
        toxic.append(float(label))
    return torch.tensor(atoms), torch.tensor(ends).T, torch.tensor(graph), torch.tensor(toxic)


class Toxicity(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(KINDS, 64)
        self.layers = nn.ModuleList([nn.Linear(128, 64) for _ in range(3)])
        self.head = nn.Linear(64, 1)

    def training_step(self, batch, batch_idx):
        atoms, (left, right), graph, toxic = batch
        x = self.embed(atoms)
        for layer in self.layers:
            messages = torch.zeros_like(x).index_add(0, left, x[right]).index_add(0, right, x[left])
            x = layer(torch.cat([x, messages], dim=1)).relu()
        molecules = x.new_zeros(len(toxic), 64).index_add(0, graph, x)
        scores = self.head(molecules).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, toxic)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    if not run.fixed:
        tracemalloc.start()  # cause
    data = DataLoader(Molecules(2000), batch_size=48, shuffle=True, collate_fn=collate)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Toxicity(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

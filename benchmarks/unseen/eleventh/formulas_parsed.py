"""What is the formula worth? Written terms are parsed into trees and read in depth-first order.

cause: each node of a tree knows its parent as well as its children, so no tree is freed when it is
    done with: the trees pile up until Python's garbage collector goes through all objects
right: the garbage collector; names it, or Node / parse and its links to the parent (a marked line);
    the change is no cycles (no parent, a weakref), gc.freeze() and rarer collections, or parsing
    once beforehand
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
FORMULAS, TOKENS, DEEPEST, LONGEST, WIDTH = 900, 24, 16, 96, 80


class Node:
    def __init__(self, sign: int, depth: int) -> None:
        self.sign, self.depth = sign, depth
        self.parent, self.children = None, []


def parse(written: list[int], linked: bool) -> Node:
    """Build the tree of a formula in prefix order: even signs take two parts, odd ones none."""
    root = Node(0, 0)
    open_nodes = [(root, 2)]
    for sign in written:
        above, left = open_nodes.pop()
        node = Node(sign, min(above.depth + 1, DEEPEST - 1))
        if linked:
            node.parent = above  # cause
        above.children.append(node)  # cause
        if left > 1:
            open_nodes.append((above, left - 1))
        if sign % 2 == 0:
            open_nodes.append((node, 2))
        if not open_nodes:
            break
    return root


def signs(root: Node) -> list[tuple[int, int]]:
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append((node.sign, node.depth))
        waiting.extend(reversed(node.children))
    return found[:LONGEST]


class Formulas(Dataset):
    def __init__(self, linked: bool) -> None:
        draw = random.Random(17)
        self.linked = linked
        self.written = [
            [draw.randrange(0, TOKENS, 2) for _ in range(40)]
            + [draw.randrange(TOKENS) for _ in range(80)]
            for _ in range(FORMULAS)
        ]
        self.worth = [sum(w[:5]) / 50 for w in self.written]

    def __len__(self):
        return FORMULAS

    def __getitem__(self, index):
        return parse(self.written[index], self.linked), self.worth[index]


def collate(batch):
    read = torch.zeros(len(batch), LONGEST, 2, dtype=torch.long)
    for row, (root, _) in enumerate(batch):
        found = signs(root)
        read[row, : len(found)] = torch.tensor(found)
    return read, torch.tensor([worth for _, worth in batch])


class Reader(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.signs, self.depths = nn.Embedding(TOKENS, WIDTH), nn.Embedding(DEEPEST, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        read, worth = batch
        hidden, _ = self.gru(self.signs(read[..., 0]) + self.depths(read[..., 1]))
        loss = nn.functional.mse_loss(self.head(hidden.mean(1)).squeeze(1), worth)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    formulas = Formulas(linked=not run.fixed)
    data = DataLoader(formulas, batch_size=24, shuffle=True, drop_last=True, collate_fn=collate)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Reader(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

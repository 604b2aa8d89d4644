"""Poems, letter by letter: eight narrow blocks, with the settings of a model that was far bigger.

report: Nerogar/OneTrainer issue 40, "option to disable gradient checkpointing" ("I would prefer faster
    training than higher batch size"), and stas00/ml-engineering pull request 64
cause: every block's activations are thrown away and worked out again in backward, which saves memory
    that is not short: one more forward in each step
right: activation checkpointing (torch.utils.checkpoint, the forward that is run again in backward, a
    marked line) takes about a quarter of a step; the change is to leave it out, or to use it in some
    blocks only, as memory has room
The mended form trains alike.
"""

import torch
from case import Module, Run, cross_entropy, mlp, whole_batches
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS, LENGTH, WIDTH, HEADS, LETTERS = 60, 96, 128, 4, 60


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = mlp(WIDTH, 4 * WIDTH, WIDTH, act=nn.GELU)

    def forward(self, x):
        rows, length, _ = x.shape
        parts = self.mixed(self.before(x)).view(rows, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.wide(self.between(x))


class Poems(Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(8))
        self.head = nn.Linear(WIDTH, LETTERS)

    def loss(self, batch):
        text = batch[0]
        x = self.letters(text[:, :-1]) + self.places.weight
        for block in self.blocks:
            x = block(x) if self.fixed else checkpoint(block, x, use_reentrant=False)  # cause
        return cross_entropy(self.head(x), text[:, 1:])


def main(run: Run) -> None:
    text = torch.randint(LETTERS, (1600, LENGTH + 1))
    run.fit(Poems(run.fixed), whole_batches([text], 4))

"""How does the verse go on? A small language model of letters, after a well-known repository.

Seen in huggingface/transformers issue 21344 and karpathy/nanoGPT issue 2.

cause: the activation is the tanh form of GELU written out in Python, eight operations that each
    read and write the widest tensor of the block, forward and backward, and keep their results
right: names the written-out GELU (its line, or the operations it is made of); the change is
    nn.functional.gelu(x, approximate="tanh")
accept: @line
"""

import math

import torch
from case import Module, Run, cross_entropy, whole_batches
from torch import nn

STEPS, VERSES, LETTERS, KINDS, WIDTH = 160, 4000, 64, 40, 96


def gelu(x):
    cube = 0.044715 * torch.pow(x, 3.0)  # cause
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + cube)))  # cause


class Block(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.asks, self.says = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 8 * WIDTH), nn.Linear(8 * WIDTH, WIDTH)

    def forward(self, x):
        asked = self.asks(self.first(x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*asked.unbind(0), is_causal=True)
        x = x + self.says(found.transpose(1, 2).flatten(2))
        wide = self.wide(self.second(x))
        wide = nn.functional.gelu(wide, approximate="tanh") if self.fixed else gelu(wide)
        return x + self.narrow(wide)


class Verses(Module):
    fused = True

    def __init__(self, fixed):
        super().__init__()
        self.letters = nn.Embedding(KINDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LETTERS, WIDTH))
        self.blocks = nn.Sequential(*(Block(fixed) for _ in range(3)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, KINDS))

    def loss(self, batch):
        (verses,) = batch
        hidden = self.blocks(self.letters(verses[:, :-1]) + self.places)
        return cross_entropy(self.head(hidden), verses[:, 1:])


def main(run: Run) -> None:
    steps = torch.randint(1, 4, (VERSES, 1)) * torch.arange(LETTERS + 1)
    verses = (torch.randint(0, KINDS, (VERSES, 1)) + steps) % KINDS
    run.fit(Verses(run.fixed), whole_batches([verses], 8), enable_checkpointing=False)

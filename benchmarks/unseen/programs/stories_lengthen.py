"""Children's stories, letter by letter: first short pieces, then longer and longer ones.

cause: the compiled model is made for fixed shapes (dynamic=False), and the pieces grow every 50
    steps, so that it is compiled again for each length
right: recompilation; names torch.compile(dynamic=False), the lengths or a marked line; the change
    is dynamic=True, mark_dynamic or one padded length
accept: recompilation
"""

import os
import tempfile

import torch
from case import Module, Run, cross_entropy, mlp, whole_batches
from torch import nn

STEPS, PIECES, LONGEST, LETTERS, WIDTH, HEADS = 300, 2400, 72, 64, 96, 4
SHORTEST, LONGER_BY, EVERY = 32, 8, 50


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.three, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = mlp(WIDTH, 4 * WIDTH, WIDTH, act=nn.GELU)

    def forward(self, hidden):
        size, length, _ = hidden.shape
        three = self.three(self.before(hidden)).view(size, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(seen.transpose(1, 2).reshape(size, length, WIDTH))
        return hidden + self.mlp(self.after(hidden))


class Stories(Module):
    fused = True

    def __init__(self, dynamic):
        super().__init__()
        self.letters, self.head = nn.Embedding(LETTERS, WIDTH), nn.Linear(WIDTH, LETTERS)
        self.places = nn.Parameter(torch.randn(LONGEST, WIDTH) / 20)
        self.blocks = nn.Sequential(Block(), Block())
        self.compiled = torch.compile(self.blocks, dynamic=dynamic)  # cause

    def loss(self, batch):
        (pieces,) = batch
        length = min(LONGEST, SHORTEST + LONGER_BY * (self.global_step // EVERY))
        hidden = self.letters(pieces[:, :length]) + self.places[:length]
        return cross_entropy(self.head(self.compiled(hidden)), pieces[:, 1 : length + 1])  # cause


def main(run: Run) -> None:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # nothing compiled before
    pieces = torch.randint(LETTERS, (PIECES, 1)) + 5 * torch.arange(LONGEST + 1)
    run.fit(Stories(dynamic=run.fixed), whole_batches([pieces % LETTERS], 16))

"""A character model with local attention, written to be read.

cause: the attention mask is built cell by cell in nested Python loops in every forward
accept: host-bound @line
"""

import torch
from case import Module, Run, cross_entropy, shuffled
from torch import nn

STEPS, LENGTH, NEAR, VOCABULARY = 500, 160, 32, 90


def build_mask(length, near):
    rows = []
    for i in range(length):  # cause
        row = []
        for j in range(length):  # cause
            visible = j <= i and i - j < near  # cause
            row.append(0.0 if visible else float("-inf"))  # cause
        rows.append(row)
    return torch.tensor(rows)  # cause


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm(x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).flatten(2))


class CharModel(Module):
    def __init__(self, cache):
        super().__init__()
        self.mask = build_mask(LENGTH, NEAR) if cache else None
        self.embed, self.head = nn.Embedding(VOCABULARY, 96), nn.Linear(96, VOCABULARY)
        self.blocks = nn.ModuleList([Block(96) for _ in range(2)])

    def forward(self, ids):
        x = self.embed(ids)
        mask = self.mask if self.mask is not None else build_mask(ids.shape[1], NEAR)  # cause
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)

    def loss(self, batch):
        (ids,) = batch
        return cross_entropy(self(ids[:, :-1]), ids[:, 1:])  # cause


def main(run: Run) -> None:
    texts = torch.randint(VOCABULARY, (2000, LENGTH + 1))
    run.fit(CharModel(cache=run.fixed), shuffled(4, texts))

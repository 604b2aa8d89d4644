"""A vision transformer of two layers over patches of satellite tiles.

cause: nn.MultiheadAttention returns its weights by default; nobody reads them, and they cost the
    fused kernel
accept: memory-bound-kernels @line
"""

import torch
from case import Module, Run, mlp, shuffled
from torch import nn

STEPS, TILE, PATCH, WIDTH, LAND_USES = 250, 160, 8, 96, 10


class Layer(nn.Module):
    def __init__(self, need_weights):
        super().__init__()
        self.need_weights = need_weights
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = mlp(WIDTH, 128, WIDTH, act=nn.GELU)

    def forward(self, x):
        y = self.norm1(x)
        attended, _ = self.attention(y, y, y, need_weights=self.need_weights)  # cause
        x = x + attended
        return x + self.mlp(self.norm2(x))


class TileModel(Module):
    def __init__(self, need_weights):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.position = nn.Parameter(torch.zeros(1, (TILE // PATCH) ** 2, WIDTH))
        self.layers = nn.Sequential(*[Layer(need_weights) for _ in range(2)])
        self.head = nn.Linear(WIDTH, LAND_USES)

    def forward(self, tiles):
        x = self.patches(tiles).flatten(2).transpose(1, 2) + self.position
        return self.head(self.layers(x).mean(dim=1))  # cause

    def loss(self, batch):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])  # cause


def main(run: Run) -> None:
    data = shuffled(2, torch.randn(240, 3, TILE, TILE), torch.randint(LAND_USES, (240,)))
    run.fit(TileModel(need_weights=not run.fixed), data)

"""A vision transformer of two layers over patches of satellite tiles.

cause: nn.MultiheadAttention returns its weights by default; nobody reads them, and they cost the
fused kernel
accept: memory-bound-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
TILE, PATCH, WIDTH, LAND_USES = 160, 8, 96, 10


class Layer(nn.Module):
    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.need_weights = need_weights
        self.attention = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, WIDTH))

    def forward(self, x):
        y = self.norm1(x)
        attended, _ = self.attention(y, y, y, need_weights=self.need_weights)  # cause
        x = x + attended
        return x + self.mlp(self.norm2(x))


class TileModel(L.LightningModule):
    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.position = nn.Parameter(torch.zeros(1, (TILE // PATCH) ** 2, WIDTH))
        self.layers = nn.Sequential(*[Layer(need_weights) for _ in range(2)])
        self.head = nn.Linear(WIDTH, LAND_USES)

    def forward(self, tiles):
        x = self.patches(tiles).flatten(2).transpose(1, 2) + self.position
        return self.head(self.layers(x).mean(dim=1))  # cause

    def training_step(self, batch, batch_idx):
        tiles, uses = batch
        loss = nn.functional.cross_entropy(self(tiles), uses)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    tiles = TensorDataset(torch.randn(240, 3, TILE, TILE), torch.randint(LAND_USES, (240,)))
    data = DataLoader(tiles, batch_size=2, shuffle=True)
    model = TileModel(need_weights=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""A masked autoencoder of aerial tiles: the encoder sees a quarter of the patches.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
SIDE, PATCH, WIDTH = 64, 8, 96
PATCHES, SEEN = (SIDE // PATCH) ** 2, 16


def encoder(width: int, layers: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        width, 4, 3 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


class MaskedTiles(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.between = nn.Linear(3 * PATCH**2, WIDTH), nn.Linear(WIDTH, 64)
        self.place, self.drawn_place = nn.Embedding(PATCHES, WIDTH), nn.Embedding(PATCHES, 64)
        self.hidden = nn.Parameter(torch.zeros(64))
        self.encoder, self.decoder = encoder(WIDTH, 3), encoder(64, 1)
        self.out = nn.Linear(64, 3 * PATCH**2)

    def training_step(self, batch, batch_idx):
        (tiles,) = batch
        patches = nn.functional.unfold(tiles, PATCH, stride=PATCH).mT
        seen = torch.rand(len(tiles), PATCHES).argsort(1)[:, :SEEN]
        rows = seen.unsqueeze(2)
        picked = patches.gather(1, rows.expand(-1, -1, patches.shape[2]))
        known = self.between(self.encoder(self.into(picked) + self.place(seen)))
        drawn = self.hidden.expand(len(tiles), PATCHES, -1)
        drawn = drawn.scatter(1, rows.expand(-1, -1, known.shape[2]), known)
        guess = self.out(self.decoder(drawn + self.drawn_place.weight))
        hidden = torch.ones(len(tiles), PATCHES).scatter(1, seen, 0.0)
        loss = ((guess - patches).pow(2).mean(2) * hidden).sum() / hidden.sum()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.trainer.max_steps)
        return [optimizer], [{"scheduler": cosine, "interval": "step"}]


def main(run: Run) -> None:
    tiles = TensorDataset(torch.rand(1280, 3, SIDE, SIDE))
    data = DataLoader(tiles, batch_size=16, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(MaskedTiles(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

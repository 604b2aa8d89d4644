"""Masked words of court rulings: scores at the masked places alone, warmed-up learning rate.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 140
WORDS, LENGTH, WIDTH = 1500, 48, 96


class Rulings(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS + 1, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 256, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def training_step(self, batch, batch_idx):
        (words,) = batch
        masked = torch.rand(words.shape) < 0.15
        hidden = self.layers(self.words(words.masked_fill(masked, WORDS)) + self.places)
        loss = nn.functional.cross_entropy(self.head(hidden[masked]), words[masked])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=60)
        return [optimizer], [{"scheduler": warm, "interval": "step"}]


def main(run: Run) -> None:
    rulings = TensorDataset(torch.randint(WORDS, (960, LENGTH)))
    data = DataLoader(rulings, batch_size=12, shuffle=True)
    L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer).fit(Rulings(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Masked amino acids in proteins' neighbourhoods, a vocabulary of three-letter pieces.

seen in: facebookresearch/pytext pull request 957, "Reduce MaskedLM memory usage": only the masked
tokens need scores

cause: scores over all pieces are made at every place, though the loss counts one in seven
accept: memory-bound-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 120
PIECES, LENGTH, WIDTH = 3000, 48, 96


class Proteins(L.LightningModule):
    def __init__(self, masked_alone: bool) -> None:
        super().__init__()
        self.masked_alone = masked_alone
        self.pieces = nn.Embedding(PIECES + 1, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 192, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, PIECES)

    def training_step(self, batch, batch_idx):
        (pieces,) = batch
        masked = torch.rand(pieces.shape) < 0.15
        hidden = self.layers(self.pieces(pieces.masked_fill(masked, PIECES)) + self.places)
        if self.masked_alone:
            loss = nn.functional.cross_entropy(self.head(hidden[masked]), pieces[masked])
        else:
            wanted = pieces.masked_fill(~masked, -100).flatten()
            loss = nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), wanted)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    proteins = TensorDataset(torch.randint(PIECES, (640, LENGTH)))
    data = DataLoader(proteins, batch_size=12, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Proteins(masked_alone=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

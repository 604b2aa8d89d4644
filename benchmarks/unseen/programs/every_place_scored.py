"""Masked amino acids in proteins' neighbourhoods, a vocabulary of three-letter pieces.

Seen in facebookresearch/pytext pull request 957, "Reduce MaskedLM memory usage".

cause: scores over all pieces are made at every place, though the loss counts one in seven
accept: memory-bound-kernels @line
"""

import torch
from case import Module, Run, cross_entropy, shuffled
from torch import nn

STEPS, PIECES, LENGTH, WIDTH = 120, 3000, 48, 96


class Proteins(Module):
    def __init__(self, masked_alone):
        super().__init__()
        self.masked_alone = masked_alone
        self.pieces, self.head = nn.Embedding(PIECES + 1, WIDTH), nn.Linear(WIDTH, PIECES)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 192, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def loss(self, batch):
        (pieces,) = batch
        masked = torch.rand(pieces.shape) < 0.15
        hidden = self.layers(self.pieces(pieces.masked_fill(masked, PIECES)) + self.places)
        if self.masked_alone:
            return cross_entropy(self.head(hidden[masked]), pieces[masked])
        return cross_entropy(self.head(hidden), pieces.masked_fill(~masked, -100))  # cause


def main(run: Run) -> None:
    proteins = torch.randint(PIECES, (640, LENGTH))
    run.fit(Proteins(masked_alone=run.fixed), shuffled(12, proteins))

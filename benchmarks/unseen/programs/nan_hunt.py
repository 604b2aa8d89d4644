"""A small language model of recipes; it once gave NaN, and somebody went looking.

Seen in Lightning-AI/pytorch-lightning issues 12344 and 17359, on detect_anomaly left on.

cause: Trainer(detect_anomaly=True) keeps a traceback of every operation and checks every gradient
accept: anomaly-detection-on debugging-left-on
"""

import torch
from case import Module, Run, cross_entropy, shuffled
from torch import nn

STEPS, WORDS, LENGTH, WIDTH = 160, 400, 32, 64


class Recipes(Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def loss(self, batch):
        (words,) = batch
        hidden = self.layers(self.words(words[:, :-1]) + self.places, self.mask, is_causal=True)
        return cross_entropy(self.head(hidden), words[:, 1:])


def main(run: Run) -> None:
    data = shuffled(8, torch.randint(WORDS, (512, LENGTH + 1)))
    run.fit(Recipes(), data, detect_anomaly=not run.fixed)  # cause

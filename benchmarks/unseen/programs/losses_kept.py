"""Which words are hard? A small language model and the spread of its losses so far.

Seen in Lightning-AI/pytorch-lightning issue 2493, "Training slows down with long epoch".

cause: all losses since the start are kept, with their graphs, and joined and sorted at every step
accept: memory-growth retained-graph @line
"""

import torch
from case import Module, Run, shuffled
from torch import nn

STEPS, WORDS, LENGTH, WIDTH = 700, 600, 20, 64


class Words(Module):
    def __init__(self, keep_all):
        super().__init__()
        self.keep_all, self.losses = keep_all, []
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def spread(self, losses):
        """Return the middle and the ninth tenth of the losses so far."""
        if not self.keep_all:
            return losses.detach().quantile(torch.tensor([0.5, 0.9]))
        self.losses.append(losses)  # cause
        ordered = torch.cat(self.losses).sort().values  # cause
        return ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]

    def loss(self, batch):
        (words,) = batch
        scores = self.head(self.gru(self.embed(words[:, :-1]))[0])
        losses = nn.functional.cross_entropy(scores.mT, words[:, 1:], reduction="none").mean(1)
        middle, high = self.spread(losses)  # cause
        self.log_dict({"middle": middle, "high": high})
        return losses.mean()


def main(run: Run) -> None:
    lines = torch.randint(WORDS, (64 * 200, LENGTH + 1))
    run.fit(Words(keep_all=not run.fixed), shuffled(24, lines))

"""Typed lines to text, a letter for each box, and how many letters are wrong, always up to date.

Seen in mozilla/DeepSpeech issue 776, "WER calculation seems to be a computational bottleneck".

cause: every training batch is put into strings and held against the right ones, letter by letter
accept: slow-python @line
"""

import torch
from case import Module, Run, convs, shuffled
from torch import nn
from torchmetrics.functional.text import char_error_rate

STEPS, LETTERS, LONGEST = 180, 60, 48


def text(codes):
    return "".join(chr(32 + code) for code in codes)


class Lines(Module):
    def __init__(self, every):
        super().__init__()
        self.every = every
        wide, fine = convs((32, 96, 5, 1), dims=1, pool=False), nn.Conv1d(96, 96, 5, padding=2)
        head = nn.Conv1d(96, LETTERS, 1)
        self.net = nn.Sequential(wide, nn.MaxPool1d(2), fine, nn.ReLU(), head)

    def loss(self, batch):
        columns, letters = batch
        scores = self.net(columns)
        if self.trainer.fit_loop.batch_idx % self.every == 0:
            self.log("letter_errors", self.wrong(scores.detach(), letters))  # cause
        return nn.functional.cross_entropy(scores, letters)

    def wrong(self, scores, letters):
        said = [text(line) for line in scores.argmax(1).tolist()]
        return char_error_rate(said, [text(line) for line in letters.tolist()])  # cause


def main(run: Run) -> None:
    letters = torch.randint(LETTERS, (640, LONGEST))
    data = shuffled(12, torch.randn(640, 32, 2 * LONGEST), letters)
    run.fit(Lines(every=50 if run.fixed else 1), data, gradient_clip_val=1.0)

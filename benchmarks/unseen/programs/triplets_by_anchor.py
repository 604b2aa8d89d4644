"""Answers for questions: two towers over sentence vectors, with the hardest triplets of a batch.

Seen in "How can I vectorize this for-loop loss function?", a question on such a loss.

cause: the loss goes through the questions of a batch in a Python loop, a dozen operations for each
right: names that loop's many small operations, with the advice to do all at once, or a marked line
accept: host-bound @line
"""

from math import ceil

import torch
from case import Module, Run, mlp, shuffled
from torch import nn

STEPS, WIDTH, TOPICS, SHARE, MARGIN = 600, 384, 6, 0.5, 0.2


def one_by_one(likeness, fits):
    losses = []
    for row, fit in zip(likeness, fits, strict=True):  # cause
        right, wrong = row[fit], row[~fit]  # cause
        low = right.topk(ceil(SHARE * len(right)), largest=False).values  # cause
        high = wrong.topk(ceil(SHARE * len(wrong))).values  # cause
        losses.append(torch.relu(MARGIN + high[None] - low[:, None]).mean())  # cause
    return torch.stack(losses).mean()


def all_at_once(likeness, fits):
    rights = (SHARE * fits.sum(dim=1)).ceil().long()
    wrongs = (SHARE * (~fits).sum(dim=1)).ceil().long()
    low = likeness.masked_fill(~fits, 1e4).sort(dim=1).values[:, : int(rights.max())]
    high = likeness.masked_fill(fits, -1e4).sort(dim=1, descending=True).values
    high = high[:, : int(wrongs.max())]
    taken = torch.arange(low.shape[1]) < rights[:, None]
    against = torch.arange(high.shape[1]) < wrongs[:, None]
    triplets = torch.relu(MARGIN + high[:, None] - low[:, :, None])
    triplets = triplets * (taken[:, :, None] & against[:, None])
    return (triplets.sum(dim=(1, 2)) / (rights * wrongs)).mean()


class Towers(Module):
    fused = True

    def __init__(self, at_once):
        super().__init__()
        self.questions = mlp(WIDTH, 1024, 256, act=nn.GELU)
        self.answers = mlp(WIDTH, 1024, 256, act=nn.GELU)
        self.triplets = all_at_once if at_once else one_by_one

    def loss(self, batch):
        (questions, asked), (answers, told) = batch["questions"], batch["answers"]
        left = nn.functional.normalize(self.questions(questions), dim=1)
        right = nn.functional.normalize(self.answers(answers), dim=1)
        return self.triplets(left @ right.T, asked[:, None] == told)  # cause


def main(run: Run) -> None:
    questions = shuffled(32, torch.randn(960, WIDTH), torch.randint(TOPICS, (960,)))
    answers = shuffled(96, torch.randn(2880, WIDTH), torch.randint(TOPICS, (2880,)))
    run.fit(Towers(run.fixed), {"questions": questions, "answers": answers})

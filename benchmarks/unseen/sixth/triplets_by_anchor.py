"""Answers for questions: two towers over sentence vectors, with the hardest triplets of a batch.

seen in: a question on a site of questions and answers, "How can I vectorize this for-loop loss
function?" ("50% of the training time is spent computing the loss"), about triplets with a differing
number of right documents for each anchor

cause: the loss goes through the questions of a batch in a Python loop, a dozen operations for each
right: names the many small operations of that loop (in the loss, training_step or backward) with
    the advice to do them for all questions at once, or points at a marked line first
"""

from math import ceil

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600
WIDTH, TOPICS, SHARE, MARGIN = 384, 6, 0.5, 0.2


def tower() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 1024), nn.GELU(), nn.Linear(1024, 256))


def one_by_one(likeness, fits):
    """Mean over the questions of their triplets, from the hardest half of either side."""
    losses = []
    for row, fit in zip(likeness, fits, strict=True):  # cause
        right, wrong = row[fit], row[~fit]  # cause
        low = right.topk(ceil(SHARE * len(right)), largest=False).values  # cause
        high = wrong.topk(ceil(SHARE * len(wrong))).values  # cause
        triplets = torch.relu(MARGIN + high[None] - low[:, None])  # cause
        losses.append(triplets.mean())  # cause
    return torch.stack(losses).mean()


def all_at_once(likeness, fits):
    """Do the same with sorted rows, of which each takes as many as it has."""
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


class Towers(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.questions, self.answers = tower(), tower()
        self.triplets = all_at_once if at_once else one_by_one

    def training_step(self, batch, batch_idx):
        (questions, asked), (answers, told) = batch["questions"], batch["answers"]
        left = nn.functional.normalize(self.questions(questions), dim=1)
        right = nn.functional.normalize(self.answers(answers), dim=1)
        loss = self.triplets(left @ right.T, asked[:, None] == told)  # cause
        self.log("train_loss", loss, batch_size=len(questions))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def texts(count: int) -> TensorDataset:
    return TensorDataset(torch.randn(count, WIDTH), torch.randint(TOPICS, (count,)))


def main(run: Run) -> None:
    data = {
        "questions": DataLoader(texts(960), batch_size=32, shuffle=True),
        "answers": DataLoader(texts(2880), batch_size=96, shuffle=True),
    }
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Towers(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

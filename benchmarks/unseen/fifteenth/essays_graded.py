"""Which grade would a teacher give? Grades of essays, with the rank correlation at every step.

cause: the ranks for Spearman's correlation are averaged over ties in a Python loop over every grade
    that occurs more than once, each of which compares all the scores, at every step
right: names the loop over tied values in ranks() of the metric in training_step; its change is
    the same mean per value from torch.unique (inverse, counts) without a loop, or a rank
    correlation that is not computed at every step

Seen in https://github.com/Lightning-AI/torchmetrics/issues/3102 (torchmetrics' own code was so).
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
WORDS, ESSAYS, LENGTH, BATCH, TRAITS, WIDTH = 4000, 12000, 40, 80, 10, 64


class Essays(Dataset):
    def __init__(self) -> None:
        self.words = torch.randint(0, WORDS, (ESSAYS, LENGTH))
        spread = (self.words[:, : 4 * TRAITS].view(ESSAYS, TRAITS, 4) % 97).sum(dim=2)
        self.grades = (spread / 384 * 100).round()

    def __len__(self):
        return ESSAYS

    def __getitem__(self, index):
        return self.words[index], self.grades[index]


def ranks(values):
    """Return each value's rank; equal values share the mean of theirs."""
    order = torch.empty(len(values), device=values.device)
    order[values.argsort()] = torch.arange(1.0, len(values) + 1, device=values.device)
    found, counts = values.unique(return_counts=True)
    for tied in found[counts > 1]:
        same = values == tied  # cause
        order[same] = order[same].mean()  # cause
    return order


def ranks_without_loop(values):
    _, which, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0)
    return (last - (counts - 1) / 2)[which]


def correlation(x, y):
    x, y = x - x.mean(), y - y.mean()
    return (x * y).sum() / (x.norm() * y.norm() + 1e-6)


class Grader(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.ranks = ranks_without_loop if fixed else ranks
        self.words = nn.Embedding(WORDS, WIDTH)
        self.reader = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.grades = nn.Linear(WIDTH, TRAITS)

    def training_step(self, batch, batch_idx):
        words, grades = batch
        read, _ = self.reader(self.words(words))
        said = self.grades(read.mean(dim=1))
        loss = nn.functional.mse_loss(said, grades / 100)
        with torch.no_grad():
            rounded = (said * 100).round()
            pairs = zip(rounded.unbind(dim=1), grades.unbind(dim=1), strict=True)
            agreed = [correlation(self.ranks(mine), self.ranks(theirs)) for mine, theirs in pairs]
        self.log_dict({"train_loss": loss, "train_spearman": torch.stack(agreed).mean()})
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Essays(), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Grader(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

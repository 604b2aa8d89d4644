"""What kind is the cell? From what it expresses, with a confusion matrix of the training batches.

seen in: Lightning-AI/pytorch-lightning issue 3050, "The speed of training is slow" (a metric of
one's own at the end of every training step), and the loop over zip(labels, guesses) of many answers
about confusion matrices on discuss.pytorch.org

cause: every training step enters its guesses into a confusion matrix one by one in a Python loop
right: names the loop of small operations or the metric, in training_step or the hook after it,
    or points at a marked line first; its change counts the batch at once or less often
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 240
GENES, KINDS = 600, 20


class Cells(Dataset):
    def __init__(self, genes, kinds) -> None:
        self.genes, self.kinds = genes, kinds

    def __len__(self) -> int:
        return len(self.genes)

    def __getitems__(self, indices):
        return self.genes[indices], self.kinds[indices]


class CellKind(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        self.net = nn.Sequential(
            nn.Linear(GENES, 512),
            nn.BatchNorm1d(512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Linear(256, KINDS),
        )
        self.register_buffer("confusion", torch.zeros(KINDS, KINDS, dtype=torch.long))

    def training_step(self, batch, batch_idx):
        genes, kinds = batch
        scores = self.net(genes)
        loss = nn.functional.cross_entropy(scores, kinds)
        self.count(kinds, scores.detach().argmax(dim=1))  # cause
        self.log("train_loss", loss)
        return loss

    def count(self, kinds, guesses):
        if self.at_once:
            pairs = torch.bincount(kinds * KINDS + guesses, minlength=KINDS**2)
            self.confusion += pairs.view(KINDS, KINDS)
            return
        for kind, guess in zip(kinds.view(-1), guesses.view(-1), strict=True):  # cause
            self.confusion[kind.long(), guess.long()] += 1  # cause

    def on_train_epoch_end(self):
        right = self.confusion.diagonal().sum() / self.confusion.sum()
        self.log("train_accuracy", right)
        self.confusion.zero_()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    cells = Cells(torch.randn(16_000, GENES), torch.randint(KINDS, (16_000,)))
    data = DataLoader(cells, batch_size=256, shuffle=True, collate_fn=tuple, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(CellKind(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

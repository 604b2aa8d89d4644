"""Is the payment a fraud? A network over transactions, with the area under its curve as it goes.

cause: all scores and labels of the run are kept, and at every step all of them are joined and
    sorted to say how the model has ranked them so far: each step takes longer than the one before
right: a step that grows / memory that grows; names so_far, the list of scores, the sort or the
    concatenation (or a marked line); the change takes the curve at the end of the epoch, over a
    window, or when it is logged
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 450
PAYMENTS, COLUMNS, SHOPS, WIDTH = 60_000, 48, 2000, 256


class Payments(Dataset):
    def __init__(self) -> None:
        self.columns = torch.randn(PAYMENTS, COLUMNS)
        self.shops = torch.randint(SHOPS, (PAYMENTS,))
        self.fraud = (self.columns[:, :3].sum(1) + torch.randn(PAYMENTS) > 2.5).float()

    def __len__(self):
        return PAYMENTS

    def __getitem__(self, indices):
        return self.columns[indices], self.shops[indices], self.fraud[indices]


def area(scores, fraud):
    """Return the area under the ROC curve, by the ranks of the frauds."""
    ranks = torch.empty_like(scores)
    ranks[scores.argsort()] = torch.arange(1.0, len(scores) + 1)  # cause
    frauds = fraud.sum()
    honest = len(fraud) - frauds
    return ((ranks * fraud).sum() - frauds * (frauds + 1) / 2) / (frauds * honest).clamp(min=1)


class Fraud(L.LightningModule):
    def __init__(self, when_logged: bool) -> None:
        super().__init__()
        self.when_logged = when_logged
        self.scores, self.labels = [], []
        self.shops = nn.Embedding(SHOPS, 16)
        self.net = nn.Sequential(
            nn.Linear(COLUMNS + 16, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 1),
        )

    def so_far(self, scores, fraud):
        self.scores.append(scores.detach())
        self.labels.append(fraud)
        logged = (self.global_step + 1) % self.trainer.log_every_n_steps == 0
        if logged or not self.when_logged:
            self.log("auc_so_far", area(torch.cat(self.scores), torch.cat(self.labels)))  # cause

    def training_step(self, batch, batch_idx):
        columns, shops, fraud = batch
        scores = self.net(torch.cat([columns, self.shops(shops)], dim=1)).squeeze(1)
        weight = torch.tensor(5.0, device=self.device)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, fraud, pos_weight=weight)
        self.so_far(scores, fraud)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    payments = Payments()
    batches = BatchSampler(RandomSampler(payments), batch_size=256, drop_last=True)
    data = DataLoader(payments, sampler=batches, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Fraud(when_logged=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

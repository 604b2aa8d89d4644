"""Will the loan be paid back? A net over a table whose AUC is shown as it trains.

cause: every step sorts the scores of all loans of the epoch so far to log their AUC, and there are
    more of them with each step
right: names the AUC of all scores so far (area(), called in training_step, or its sort or cat);
    its change is to work it out at the end of the epoch (or now and then, or from bins)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
COUNT, BATCH, COLUMNS = 102400, 1024, 40


class Loans(Dataset):
    def __init__(self) -> None:
        self.rows = torch.randn(COUNT, COLUMNS)
        self.paid = (self.rows[:, :5].sum(dim=1) + torch.randn(COUNT) > 0).float()

    def __len__(self):
        return COUNT

    def __getitems__(self, indices):
        return self.rows[indices], self.paid[indices]


def as_it_is(batch):
    return batch


def area(scores, paid):
    """Return the area under the receiver's curve."""
    ranked = paid[scores.argsort(descending=True)]  # cause
    found, wrong = ranked.cumsum(0), (1 - ranked).cumsum(0)
    return torch.trapezoid(found / found[-1], wrong / wrong[-1])


class Scorer(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.scores, self.paid = [], []
        self.net = nn.Sequential(
            nn.Linear(COLUMNS, 384), nn.ReLU(), nn.Linear(384, 320), nn.ReLU(), nn.Linear(320, 1)
        )

    def training_step(self, batch, batch_idx):
        rows, paid = batch
        scores = self.net(rows).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, paid)
        self.scores.append(scores.detach())
        self.paid.append(paid)
        if not self.fixed:
            self.log("train_auc", area(torch.cat(self.scores), torch.cat(self.paid)))  # cause
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        if self.fixed:
            self.log("train_auc", area(torch.cat(self.scores), torch.cat(self.paid)))
        self.scores.clear()
        self.paid.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Loans(), batch_size=BATCH, shuffle=True, collate_fn=as_it_is)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Scorer(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

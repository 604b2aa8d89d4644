"""Click prediction; every 40 steps the AUC of the validation set.

cause: validation takes long because its AUC compares all pairs in a Python loop
accept: frequent-validation
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 560


def slow_auc(scores: torch.Tensor, labels: torch.Tensor) -> float:
    clicks = scores[labels == 1].tolist()
    others = scores[labels == 0].tolist()
    wins = 0.0
    for click in clicks:  # cause
        for other in others:  # cause
            wins += 1.0 if click > other else 0.5 if click == other else 0.0  # cause
    return wins / (len(clicks) * len(others))


def fast_auc(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    ranks = scores.argsort().argsort().float() + 1
    clicks = labels == 1
    count, rest = clicks.sum(), (~clicks).sum()
    return (ranks[clicks].sum() - count * (count + 1) / 2) / (count * rest)


class Clicks(L.LightningModule):
    def __init__(self, auc) -> None:
        super().__init__()
        self.auc = auc
        self.net = nn.Sequential(nn.Linear(40, 700), nn.ReLU(), nn.Linear(700, 600), nn.ReLU())
        self.head = nn.Linear(600, 1)
        self.scores: list[torch.Tensor] = []
        self.labels: list[torch.Tensor] = []

    def forward(self, x):
        return self.head(self.net(x)).squeeze(1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.scores.append(self(x))
        self.labels.append(y)

    def on_validation_epoch_end(self):
        value = self.auc(torch.cat(self.scores), torch.cat(self.labels))  # cause
        self.log("val_auc", value)
        self.scores.clear()
        self.labels.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    x = torch.randn(20_000, 40)
    y = (x[:, 0] + torch.randn(20_000) > 0.8).float()
    train = DataLoader(TensorDataset(x, y), batch_size=192, shuffle=True)
    val = DataLoader(TensorDataset(x[:3000], y[:3000]), batch_size=1000)
    model = Clicks(fast_auc if run.fixed else slow_auc)
    trainer = L.Trainer(callbacks=run.callbacks, val_check_interval=40,
                        num_sanity_val_steps=0, **run.trainer)  # fmt: skip
    trainer.fit(model, train, val)


if __name__ == "__main__":
    main(arguments(STEPS))

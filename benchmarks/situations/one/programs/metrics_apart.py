"""A classifier whose training scores are followed by seven metrics, as in many templates.

source: Lightning-AI/torchmetrics #1083 "MetricCollection doesn't merge compute groups on forward",
    PR #709 "Smart update of metric collection"
cause: seven metrics of the same statistics are each called with every training batch: each counts the
    hits anew, twice checks its inputs and computes the value of the batch
right: names the metrics' calls in training_step (or their lines) as the cost, with the advice to put
    them into one MetricCollection, to update() only and compute at the epoch's end, or less often
"""

import torch
from case import Run, Supervised, mlp, whole_batches
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassF1Score,
    MulticlassFBetaScore,
    MulticlassHammingDistance,
    MulticlassPrecision,
    MulticlassRecall,
    MulticlassSpecificity,
)

STEPS = 500
SCORES = {
    "accuracy": MulticlassAccuracy,
    "precision": MulticlassPrecision,
    "recall": MulticlassRecall,
    "f1": MulticlassF1Score,
    "specificity": MulticlassSpecificity,
    "hamming": MulticlassHammingDistance,
}


class Grains(Supervised):
    def __init__(self, fixed):
        super().__init__(mlp(64, 384, 384, 12))
        made = {name: kind(12) for name, kind in SCORES.items()}
        made["f2"] = MulticlassFBetaScore(2.0, 12)
        self.fixed = fixed
        self.scores = MetricCollection(made, prefix="train_") if fixed else nn.ModuleDict(made)

    def training_step(self, batch, batch_idx):
        logits = self.net(batch[0])
        loss = self.criterion(logits, batch[1])
        self.log("train_loss", loss)
        if self.fixed:
            self.scores.update(logits.detach(), batch[1])
            return loss
        for name, score in self.scores.items():
            score(logits, batch[1])  # cause
            self.log(f"train_{name}", score, on_step=True, on_epoch=True)  # cause
        return loss

    def on_train_epoch_end(self):
        if self.fixed:
            self.log_dict(self.scores.compute())
            self.scores.reset()


def main(run: Run) -> None:
    x = torch.randn(22_400, 64)
    run.fit(Grains(run.fixed), whole_batches([x, x[:, :12].argmax(1)], 128))

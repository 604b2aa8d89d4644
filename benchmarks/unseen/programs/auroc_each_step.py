"""Churn prediction; the progress of the AUROC is shown for every step.

cause: torchmetrics' BinaryAUROC collects all scores so far and is computed anew in every step
accept: slow-logging @line
"""

import torch
from case import Module, Run, mlp, shuffled
from torch import nn
from torchmetrics.classification import BinaryAUROC

STEPS = 850


class Churn(Module):
    def __init__(self, every_step):
        super().__init__()
        self.every_step = every_step
        self.net = mlp(30, 512, 512, 1)
        self.auroc = BinaryAUROC(thresholds=None if every_step else 200)

    def loss(self, batch):
        x, y = batch
        scores = self.net(x).squeeze(1)
        self.auroc.update(scores.detach().sigmoid(), y)
        if self.every_step:
            self.log("train_auroc", self.auroc.compute())  # cause
        return nn.functional.binary_cross_entropy_with_logits(scores, y.float())

    def on_train_epoch_end(self):
        if not self.every_step:
            self.log("train_auroc", self.auroc.compute())
        self.auroc.reset()


def main(run: Run) -> None:
    data = shuffled(192, torch.randn(40_000, 30), torch.randint(2, (40_000,)))
    run.fit(Churn(every_step=not run.fixed), data)

"""Churn prediction; the progress of the AUROC is shown for every step.

cause: torchmetrics' BinaryAUROC collects all scores so far and is computed anew in every step
accept: slow-logging @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAUROC

STEPS = 850


class Churn(L.LightningModule):
    def __init__(self, every_step: bool) -> None:
        super().__init__()
        self.every_step = every_step
        self.net = nn.Sequential(nn.Linear(30, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
        self.head = nn.Linear(512, 1)
        self.auroc = BinaryAUROC(thresholds=None if every_step else 200)

    def training_step(self, batch, batch_idx):
        x, y = batch
        scores = self.head(self.net(x)).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, y.float())
        if self.every_step:
            self.auroc.update(scores.detach().sigmoid(), y)
            self.log("train_auroc", self.auroc.compute())  # cause
        else:
            self.auroc.update(scores.detach().sigmoid(), y)
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        if not self.every_step:
            self.log("train_auroc", self.auroc.compute())
        self.auroc.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    customers = TensorDataset(torch.randn(40_000, 30), torch.randint(2, (40_000,)))
    data = DataLoader(customers, batch_size=192, shuffle=True)
    model = Churn(every_step=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


GROWS = True  # the longer the run, the more the cause takes of a step

if __name__ == "__main__":
    main(arguments(STEPS))

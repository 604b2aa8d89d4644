"""A hundred patients: survival from their gene expressions.

seen in: Lightning-AI/pytorch-lightning issue 7932, "Training slows down significantly for small
dataset sizes"

cause: an epoch has four batches, and each ends with a checkpoint and a new iterator
accept: slow-checkpoint slow-epoch-start @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

STEPS = 500
PATIENTS, GENES = 100, 1500


class Survival(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(GENES, 320), nn.SELU(), nn.AlphaDropout(0.2), nn.Linear(320, 64), nn.SELU()
        )
        self.risk = nn.Linear(64, 1)

    def training_step(self, batch, batch_idx):
        genes, months = batch
        risks = self.risk(self.net(genes)).squeeze(1)[months.argsort(descending=True)]
        loss = (risks.logcumsumexp(0) - risks).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    patients = TensorDataset(torch.randn(PATIENTS, GENES), torch.rand(PATIENTS) * 60)
    if run.fixed:
        again = RandomSampler(patients, replacement=True, num_samples=50 * PATIENTS)
        data = DataLoader(patients, batch_size=25, sampler=again)
    else:
        data = DataLoader(patients, batch_size=25, shuffle=True)  # cause
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Survival(), data)  # cause


if __name__ == "__main__":
    main(arguments(STEPS))

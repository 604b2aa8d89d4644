"""A stable recurrent network: its matrix is held below norm one, so states cannot explode.

seen in: pytorch/pytorch issue 2176, "should weight norm only recompute weights at the beginning
and after each call to backward?"

cause: the spectral norm is taken anew at each of 28 time steps, where once a batch is enough
accept: host-bound small-kernels @line
"""

from contextlib import nullcontext

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
LENGTH, INPUTS, WIDTH = 28, 28, 256


class Stable(L.LightningModule):
    def __init__(self, once_a_batch: bool) -> None:
        super().__init__()
        self.once_a_batch = once_a_batch
        self.into = nn.Linear(INPUTS, WIDTH)
        self.recurrent = parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH, bias=False))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, rows):
        state = rows.new_zeros(len(rows), WIDTH)
        with parametrize.cached() if self.once_a_batch else nullcontext():
            for x in self.into(rows).unbind(1):
                state = torch.tanh(x + self.recurrent(state))  # cause
        return self.head(state)

    def training_step(self, batch, batch_idx):
        rows, digits = batch
        loss = nn.functional.cross_entropy(self(rows), digits)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    rows = TensorDataset(torch.rand(6400, LENGTH, INPUTS), torch.randint(10, (6400,)))
    data = DataLoader(rows, batch_size=64, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Stable(once_a_batch=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

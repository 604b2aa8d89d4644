"""Odd bearings: what lies far from the moving centre of the sound ones is suspect.

seen in: jlamprou/Infini-Attention issue 3, "Do we need .backward(retain_graph=True)?" (a memory
that nobody detached), and pytorch/pytorch issue 2769

cause: the moving centre keeps the graph of all steps so far, and backward goes through all of it
accept: retained-graph memory-growth @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
GROWS = True
BANDS, CODE = 600, 48


class Bearings(L.LightningModule):
    def __init__(self, detached: bool) -> None:
        super().__init__()
        self.detached = detached
        self.code = nn.Linear(BANDS, CODE)
        self.centre = torch.zeros(CODE)

    def training_step(self, batch, batch_idx):
        (spectra,) = batch
        codes = self.code(spectra)
        centre = 0.95 * self.centre + 0.05 * codes.mean(0)  # cause
        self.centre = centre.detach() if self.detached else centre  # cause
        spread = codes.std(0).sub(1).square().mean()
        loss = (codes - self.centre).square().mean() + spread
        self.log("train_loss", loss.detach())
        return loss

    def backward(self, loss):
        loss.backward(retain_graph=not self.detached)  # cause

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.randn(1280, BANDS)), batch_size=32, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Bearings(detached=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Single cells by the RNA counted in them: a variational autoencoder with Poisson counts.

seen in: scverse/scvi-tools pull request 257, "Speed up performance on brain_large" (it reorders the
likelihood of counts, which ends with this term), and pytorch/pytorch pull request 1779, whose
Poisson loss drops the term unless it is asked for

cause: the loss is asked for in full, so it approximates log(count!) of every count by Stirling's
    formula at each step: a constant of the data that no parameter moves
right: says that the full Poisson loss (its Stirling term, a constant without a gradient) takes the
    time, or points at a marked line first; its change is full=False, or to have the term ready
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 600
CELLS, BATCH, GENES, WIDTH, HIDDEN = 6000, 192, 2000, 64, 10


class Cells(L.LightningModule):
    def __init__(self, full: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(GENES, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * HIDDEN)
        )
        self.decoder = nn.Sequential(
            nn.Linear(HIDDEN, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, GENES)
        )
        self.loss = nn.PoissonNLLLoss(full=full, reduction="none")  # cause

    def training_step(self, batch, batch_idx):
        (counts,) = batch
        means, spreads = self.encoder(counts.log1p()).chunk(2, dim=1)
        hidden = means + torch.randn_like(means) * (spreads / 2).exp()
        log_rates = counts.sum(dim=1, keepdim=True).log() + self.decoder(hidden).log_softmax(dim=1)
        told = self.loss(log_rates, counts).sum(dim=1)  # cause
        divergence = 0.5 * (means.square() + spreads.exp() - spreads - 1).sum(dim=1)
        loss = (told + divergence).mean()
        self.log("elbo", -loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    counts = torch.poisson(torch.distributions.Gamma(0.3, 0.1).sample((CELLS, GENES)))
    cells = TensorDataset(counts)
    batches = BatchSampler(RandomSampler(cells), BATCH, drop_last=True)
    data = DataLoader(cells, sampler=batches, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Cells(not run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

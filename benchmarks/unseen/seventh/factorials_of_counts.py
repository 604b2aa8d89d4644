"""Single cells by the RNA counted in them: a variational autoencoder with Poisson counts.

seen in: scverse/scvi-tools pull request 257, "Speed up performance on brain_large" (it stores
intermediate values of the likelihood of counts, which has this term, and reorders them)

cause: the loss computes log(count!) of every count of the batch, which no parameter moves: it has
    no gradient
right: says that the lgamma of the counts is a constant of the loss and takes the time, or points at
    the marked line first; its change leaves the term out, or has it ready
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 600
CELLS, BATCH, GENES, WIDTH, HIDDEN = 6000, 256, 2000, 64, 10


def loss_of_counts(counts, rates, whole):
    """Return the negative log likelihood of Poisson counts, up to a constant unless whole."""
    likelihood = counts * torch.log(rates + 1e-8) - rates
    if whole:
        likelihood = likelihood - torch.lgamma(counts + 1)  # cause
    return -likelihood.sum(dim=1)


class Cells(L.LightningModule):
    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.whole = whole
        self.encoder = nn.Sequential(
            nn.Linear(GENES, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * HIDDEN)
        )
        self.decoder = nn.Sequential(
            nn.Linear(HIDDEN, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, GENES)
        )

    def training_step(self, batch, batch_idx):
        (counts,) = batch
        means, spreads = self.encoder(counts.log1p()).chunk(2, dim=1)
        hidden = means + torch.randn_like(means) * (spreads / 2).exp()
        rates = counts.sum(dim=1, keepdim=True) * self.decoder(hidden).softmax(dim=1)
        told = loss_of_counts(counts, rates, self.whole)
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

"""Which kind of cell is this droplet? An autoencoder of gene counts that are nearly all zero.

cause: the counts are kept as one sparse tensor of coordinates (COO), and __getitem__ takes a row of
    it: for each cell all stored counts of all cells are searched for those with that row number
right: names the row taken from the sparse tensor in __getitem__ (self.counts[index].to_dense());
    its change is to keep the counts by rows (CSR: the start of each row and its columns), or
    to make whole batches dense at once

Seen in https://github.com/pytorch/pytorch/issues/54561 and, as counts kept by the wrong
axis, in https://github.com/cellgeni/sceasy/issues/69.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 160
CELLS, GENES, FOUND, BATCH, WIDTH, CODE = 4000, 1500, 45, 48, 448, 24


class Droplets(Dataset):
    def __init__(self, fixed) -> None:
        self.fixed = fixed
        kinds = torch.rand(12, GENES).pow(6)
        genes = torch.multinomial(kinds[torch.arange(CELLS) % 12], FOUND).sort(dim=1).values
        found = torch.poisson(torch.full((CELLS, FOUND), 2.0)) + 1
        cells = torch.arange(CELLS).repeat_interleave(FOUND)
        places = torch.stack([cells, genes.flatten()])
        counts = torch.sparse_coo_tensor(places, found.flatten(), (CELLS, GENES)).coalesce()
        if fixed:
            by_row = counts.to_sparse_csr()
            self.starts = by_row.crow_indices().tolist()
            self.genes, self.found = by_row.col_indices(), by_row.values()
        else:
            self.counts = counts

    def __len__(self):
        return CELLS

    def __getitem__(self, index):
        if self.fixed:
            begin, end = self.starts[index], self.starts[index + 1]
            cell = torch.zeros(GENES)
            cell[self.genes[begin:end]] = self.found[begin:end]
            return cell
        return self.counts[index].to_dense()  # cause


class Autoencoder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(GENES, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU()
        )
        self.code = nn.Linear(WIDTH, 2 * CODE)
        self.decoder = nn.Sequential(
            nn.Linear(CODE, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU()
        )
        self.rates = nn.Linear(WIDTH, GENES)

    def training_step(self, counts, batch_idx):
        depth = counts.sum(dim=1, keepdim=True)
        mean, spread = self.code(self.encoder(counts.log1p())).chunk(2, dim=1)
        code = mean + torch.exp(0.5 * spread) * torch.randn_like(mean)
        rates = self.rates(self.decoder(code)).log_softmax(dim=1) + depth.log()
        told = nn.functional.poisson_nll_loss(rates, counts, reduction="none").sum(dim=1).mean()
        apart = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(dim=1).mean()
        loss = (told + 0.1 * apart) / GENES
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Droplets(run.fixed), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Autoencoder(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

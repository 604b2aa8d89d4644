"""Expression of genes, denoised: what a trained network makes of 8000 cells goes to tables.

report: cellarium-ai/cellarium-ml issue 285, "PredictWriter: gzip csvs and run in background thread"
    ("Gzipping can be handled automatically by pandas, but it takes a long time. And the rest of the
    code waits": 18 hours, 7.5 without gzip, 5 in a thread)
cause: after each batch the writer of predictions formats 250 columns as text and packs them with
    gzip at its highest level; the next batch waits
right: the callback's write_on_batch_end (its gzip, or savetxt in it; a marked line) takes nearly all of
    predict, the network little; the change is not to pack, or at level 1, or in a thread beside, or
    a binary form (npy). Not the loader, nor a larger batch
FIX=1 mends it: the same tables, not packed.
"""

import gzip
from pathlib import Path

import clock
import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CELLS, GENES, COLUMNS = 8000, 400, 250


class Tables(BasePredictionWriter):
    def __init__(self, folder):
        super().__init__("batch")
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write_on_batch_end(self, trainer, module, prediction, indices, batch, index, loader):
        path = self.folder / f"batch_{index}.csv"
        if clock.FIX:
            with open(path, "wb") as table:
                np.savetxt(table, prediction.numpy(), "%.5f", ",")
        else:
            with gzip.open(f"{path}.gz", "wb") as table:  # cause
                np.savetxt(table, prediction.numpy(), "%.5f", ",")  # cause


class Denoiser(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(GENES, 512), nn.ReLU(), nn.Linear(512, COLUMNS))

    def predict_step(self, batch, index):
        return self.net(batch[0]).exp()


if __name__ == "__main__":
    made, times = clock.trainer(callbacks=[Tables(f"{clock.OUT}/tables")], logger=False)
    data = DataLoader(TensorDataset(torch.randn(CELLS, GENES)), 100)
    model = Denoiser()
    clock.timed(made, times, lambda: made.predict(model, data, return_predictions=False))

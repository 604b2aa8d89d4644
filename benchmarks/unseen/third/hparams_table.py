"""Traffic in a city from its neighbouring streets.

seen in: Lightning-AI/pytorch-lightning issue 19785, "Passing a dataloader to save_hyperparams hangs
trainer.fit", and martinwhl/Informer-PyTorch-Lightning issue 1, "long start time"

cause: save_hyperparameters() keeps the table of distances, so each epoch's checkpoint pickles it
accept: slow-checkpoint @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
STREETS, HOURS = 900, 12


class Traffic(L.LightningModule):
    def __init__(self, distances: np.ndarray, width: int, keep_table: bool) -> None:
        super().__init__()
        if keep_table:
            self.save_hyperparameters()  # cause
        else:
            self.save_hyperparameters(ignore=["distances"])
        near = torch.from_numpy(distances).float().neg().topk(8).indices
        self.register_buffer("near", near, persistent=False)
        self.into = nn.Linear(HOURS, width)
        self.mix = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, 1)

    def training_step(self, batch, batch_idx):
        past, ahead = batch
        x = self.into(past).relu()
        x = self.mix(torch.cat([x, x[:, self.near].mean(2)], dim=2)).relu()
        loss = nn.functional.l1_loss(self.out(x).squeeze(2), ahead)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    hours = TensorDataset(torch.rand(80, STREETS, HOURS), torch.rand(80, STREETS))
    data = DataLoader(hours, batch_size=2, shuffle=True)
    distances = np.random.default_rng(0).random((STREETS, STREETS))
    model = Traffic(distances, 48, keep_table=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)  # cause


if __name__ == "__main__":
    main(arguments(STEPS))

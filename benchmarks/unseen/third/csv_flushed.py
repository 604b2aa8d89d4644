"""Twelve properties of a crystal at once, one table of all losses for a spreadsheet.

seen in: Lightning-AI/pytorch-lightning issue 19240, "Slower Training Speed with CSVLogger"

cause: CSVLogger logs every step and writes its file after each of them
accept: slow-logging @line
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 700
INPUTS, PROPERTIES = 80, 12


class Crystals(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(INPUTS, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 256)
        )
        self.head = nn.Linear(256, PROPERTIES)

    def training_step(self, batch, batch_idx):
        crystals, wanted = batch
        losses = (self.head(self.net(crystals)) - wanted).abs().mean(0)
        names = {f"loss_{i}": loss for i, loss in enumerate(losses.detach())}
        self.log_dict({"train_loss": losses.mean(), **names})
        return losses.mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    crystals = TensorDataset(torch.randn(6400, INPUTS), torch.randn(6400, PROPERTIES))
    data = DataLoader(crystals, batch_size=64, shuffle=True)
    if run.fixed:
        logger, every = CSVLogger(run.root), 50
    else:
        logger, every = CSVLogger(run.root, flush_logs_every_n_steps=1), 1  # cause
    trainer = L.Trainer(  # cause
        callbacks=run.callbacks,  # cause
        logger=logger,  # cause
        log_every_n_steps=every,  # cause
        **run.trainer,  # cause
    )
    trainer.fit(Crystals(), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Is the pacemaker at fault? A residual net over electrocardiograms with eight leads.

cause: on_before_batch_transfer takes the wandering baseline off each lead of each record with
    np.convolve, the same for every epoch, on the main process before each step
right: names on_before_batch_transfer or without_baseline (or the batch's transfer hooks), or points
    at a marked line first; its change does it once beforehand over the records, in the loader's
    workers, or for the whole batch at once
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
RECORDS, LEADS, SAMPLES, BATCH = 1600, 8, 500, 16
WINDOW = np.ones(125, dtype=np.float32) / 125


def without_baseline(records):
    flat = records.numpy()
    out = np.empty_like(flat)
    for number, record in enumerate(flat):
        for lead, voltage in enumerate(record):
            out[number, lead] = voltage - np.convolve(voltage, WINDOW, mode="same")  # cause
    return torch.from_numpy(out)


class Residual(nn.Module):
    def __init__(self, width) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv1d(width, width, 7, padding=3),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Conv1d(width, width, 7, padding=3),
            nn.BatchNorm1d(width),
        )

    def forward(self, x):
        return torch.relu(x + self.inner(x))


class Pacemakers(L.LightningModule):
    def __init__(self, filtered) -> None:
        super().__init__()
        self.filtered = filtered
        self.net = nn.Sequential(
            nn.Conv1d(LEADS, 48, 15, stride=4, padding=7),
            nn.ReLU(),
            Residual(48),
            Residual(48),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Linear(48, 1),
        )

    def on_before_batch_transfer(self, batch, dataloader_idx):
        records, faults = batch
        if not self.filtered:
            records = without_baseline(records)  # cause
        return records, faults

    def training_step(self, batch, batch_idx):
        records, faults = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(records)[:, 0], faults)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    faults = (torch.rand(RECORDS) < 0.3).float()
    wander = torch.randn(RECORDS, LEADS, SAMPLES).cumsum(dim=2) * 0.05
    records = wander + torch.sin(torch.arange(SAMPLES) * (0.3 + 0.1 * faults[:, None, None]))
    if run.fixed:
        records = without_baseline(records)
    data = DataLoader(TensorDataset(records, faults), batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Pacemakers(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

"""Is the pacemaker at fault? A residual net over electrocardiograms with eight leads.

cause: on_before_batch_transfer takes the wandering baseline off each lead of each record with
    np.convolve, the same for every epoch, on the main process before each step
right: names that hook, without_baseline or a marked line first; the change does it once beforehand,
    in workers, or for the whole batch
accept: slow-host-to-device-copy @line
"""

import numpy as np
import torch
from case import Residual, Run, Supervised, convs, shuffled, yes_or_no
from torch import nn

STEPS, RECORDS, LEADS, SAMPLES = 400, 1600, 8, 500
WINDOW = np.ones(125, dtype=np.float32) / 125


def without_baseline(records):
    flat = records.numpy()
    out = np.empty_like(flat)
    for number, record in enumerate(flat):
        for lead, voltage in enumerate(record):
            out[number, lead] = voltage - np.convolve(voltage, WINDOW, mode="same")  # cause
    return torch.from_numpy(out)


def block():
    layers = convs((48, 48, 7, 1), dims=1, norm=True, pool=False)
    last = nn.Conv1d(48, 48, 7, padding=3), nn.BatchNorm1d(48)
    return Residual(layers, *last), nn.ReLU()


class Pacemakers(Supervised):
    fused, filtered = True, False

    def on_before_batch_transfer(self, batch, dataloader_idx):
        records, faults = batch
        if not self.filtered:
            records = without_baseline(records)  # cause
        return records, faults


def main(run: Run) -> None:
    faults = (torch.rand(RECORDS) < 0.3).float()
    wander = torch.randn(RECORDS, LEADS, SAMPLES).cumsum(dim=2) * 0.05
    records = wander + torch.sin(torch.arange(SAMPLES) * (0.3 + 0.1 * faults[:, None, None]))
    into = convs((LEADS, 48, 15, 4), dims=1, pool=False)
    ends = nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(48, 1)
    model = Pacemakers(into, *block(), *block(), *ends, loss=yes_or_no)
    model.filtered = run.fixed
    run.fit(model, shuffled(16, without_baseline(records) if run.fixed else records, faults))

"""How much power tomorrow? Exponential smoothing with learned rates, then a net, over hours.

cause: the smoothing walks through the hours in a Python loop of small tensor operations
right: names Smoothing.forward (many small operations in the model's forward), or points at a marked
    line first; its change smooths all hours at once (a matrix of powers, a scan, a convolution), or
    compiles the loop
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
METERS, HOURS, RATES, BATCH = 6400, 168, 16, 32


class Smoothing(nn.Module):
    """Smooths a series at several learned rates: y[t] = a y[t-1] + (1 - a) x[t]."""

    def __init__(self, at_once) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.linspace(-1, 4, RATES))
        self.at_once = at_once

    def forward(self, series):
        keep = self.logits.sigmoid()
        if self.at_once:
            hours = torch.arange(series.shape[1], device=series.device)
            ago = hours[:, None] - hours
            powers = keep[:, None, None] ** ago.clamp_min(0) * (ago >= 0)
            return torch.einsum("rts,bs->btr", powers, series) * (1 - keep)
        state = series.new_zeros(len(series), RATES)
        states = []
        for hour in range(series.shape[1]):
            state = keep * state + (1 - keep) * series[:, hour, None]  # cause
            states.append(state)  # cause
        return torch.stack(states, dim=1)


class Meters(L.LightningModule):
    def __init__(self, at_once) -> None:
        super().__init__()
        self.smoothing = Smoothing(at_once)
        self.net = nn.Sequential(
            nn.Conv1d(RATES, 40, 7, padding=3),
            nn.GELU(),
            nn.Conv1d(40, 40, 5, padding=2),
            nn.GELU(),
            nn.Conv1d(40, 64, 5, stride=2, padding=2),
            nn.GELU(),
            nn.AdaptiveAvgPool1d(12),
            nn.Flatten(),
            nn.Linear(64 * 12, 24),
        )

    def training_step(self, batch, batch_idx):
        past, tomorrow = batch
        smooth = self.smoothing(past)
        loss = nn.functional.huber_loss(self.net(smooth.transpose(1, 2)), tomorrow)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def meters():
    hours = torch.arange(HOURS + 24)
    daily = torch.sin(hours * 0.2618 + 6 * torch.rand(METERS, 1)) + torch.rand(METERS, 1)
    used = (daily + 0.3 * torch.randn(METERS, HOURS + 24)).relu()
    return TensorDataset(used[:, :HOURS], used[:, HOURS:])


def main(run: Run) -> None:
    data = DataLoader(meters(), batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Meters(at_once=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))

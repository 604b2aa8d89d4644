"""A two-layer LSTM that forecasts a sensor, gradients clipped by the Trainer."""

import torch
from case import Module, Run, whole_batches
from torch import nn

STEPS = 220


class Forecast(Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 96, num_layers=2, batch_first=True)
        self.head = nn.Linear(96, 12)

    def loss(self, batch):
        out, _ = self.lstm(batch[0][:, :-1])
        return nn.functional.smooth_l1_loss(self.head(out), batch[0][:, 1:])


def main(run: Run) -> None:
    windows = (torch.randn(20_000, 12).cumsum(0) * 0.01).unfold(0, 49, 1).mT
    data, options = whole_batches([windows], 48), {"enable_progress_bar": True}
    run.fit(Forecast(), data, gradient_clip_val=1.0, **options)

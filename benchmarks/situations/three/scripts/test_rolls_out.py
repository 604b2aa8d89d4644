"""A forecaster of tides is tested: three days ahead, hour by hour, from a week of levels.

report: liaoyuhua/GPT-TS issue 1, "Is it normal for testing to take ten times longer than training?"
    ("The inference stage is a direct autoregressive process, thus it takes longer time")
cause: for each hour ahead the recurrent network reads the whole week and all hours so far again,
    though its state after them is known
right: test_step (the loop that rolls out, the GRU in it; a marked line) runs 72 passes over a sequence
    that gets longer; the change is to carry the state on and read only the newest hour (as a cache of
    keys and values does), or to forecast all hours at once. Not the loader, not the metric
FIX=1 mends it: the same forecast, up to rounding.
"""

import clock
import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PLACES, PAST, AHEAD, WIDTH = 320, 168, 72, 48


class Tides(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(1, WIDTH, batch_first=True), nn.Linear(WIDTH, 1)

    def forecast(self, levels):
        for _ in range(AHEAD):
            seen, _ = self.rnn(levels)  # cause
            levels = torch.cat([levels, self.head(seen[:, -1:])], 1)
        return levels[:, -AHEAD:]

    def carried(self, levels):
        seen, state = self.rnn(levels)
        found = [self.head(seen[:, -1:])]
        while len(found) < AHEAD:
            seen, state = self.rnn(found[-1], state)
            found.append(self.head(seen))
        return torch.cat(found, 1)

    def test_step(self, batch, index):
        past, ahead = batch
        found = self.carried(past) if clock.FIX else self.forecast(past)
        self.log("error", (found - ahead).abs().mean())


if __name__ == "__main__":
    made, times = clock.trainer(logger=False)
    levels = torch.randn(PLACES, PAST + AHEAD, 1).cumsum(1) / 10
    data = DataLoader(TensorDataset(levels[:, :PAST], levels[:, PAST:]), 16)
    model = Tides()
    clock.timed(made, times, lambda: made.test(model, data, verbose=False))

"""Tomorrow's load of 30 substations, from two days before and what the calendar says.

report: awslabs/gluonts issue 2052, "potential bottleneck in training" (82.8 of 82.9 seconds of an
    epoch go to the chain of transformations that each sample runs through)
cause: for each sample the calendar's features of the whole series, three years of hours, are worked
    out, to cut three days out of them
right: the wait for data (the data set's __getitem__, the function of the calendar, a marked line)
    holds the training back; the change is to work them out once for each series, or only for the
    window that is cut out. Workers only spread it over cores
The mended form gives the same samples.
"""

import numpy as np
import torch
from case import Items, Run, Supervised
from torch import nn
from torch.utils.data import DataLoader

STEPS, STATIONS, HOURS, PAST, AHEAD = 80, 30, 3 * 8760, 48, 24


def calendar(times):
    """Return the hour, the day of the week and that of the year, each as a sine and a cosine."""
    hours = (times - times.astype("datetime64[D]")).astype(int)
    week = (times.astype("datetime64[D]").astype(int) + 3) % 7
    year = (times.astype("datetime64[D]") - times.astype("datetime64[Y]")).astype(int)
    turns = np.stack([hours / 24, week / 7, year / 366]) * 2 * np.pi
    return np.concatenate([np.sin(turns), np.cos(turns)]).astype(np.float32)


class Windows(Items):
    def __init__(self, loads, starts, fixed):
        super().__init__(loads)
        self.times = [start + np.arange(HOURS) for start in starts]
        self.known = [calendar(times) for times in self.times] if fixed else None

    def __len__(self):
        return 200 * len(self.items)

    def __getitem__(self, index):
        station = index % len(self.items)
        at = np.random.default_rng(index).integers(HOURS - PAST - AHEAD)
        if self.known:
            dates = self.known[station]
        else:
            dates = calendar(self.times[station])  # cause
        window = slice(at, at + PAST + AHEAD)
        load = self.items[station, window]
        past = np.concatenate([load[None, :PAST], dates[:, window][:, :PAST]])
        ahead = dates[:, window][:, PAST:]
        inputs = np.concatenate([past.ravel(), ahead.ravel()])
        return torch.from_numpy(inputs), torch.from_numpy(load[PAST:])


def main(run: Run) -> None:
    draw = np.random.default_rng(10)
    loads = draw.standard_normal((STATIONS, HOURS), np.float32)
    starts = np.datetime64("2019-01-01T00") + draw.integers(0, 2000, STATIONS)
    sizes = 7 * PAST + 6 * AHEAD, 512, 512
    net = nn.Linear(*sizes[:2]), nn.ReLU(), nn.Linear(*sizes[1:]), nn.ReLU(), nn.Linear(512, AHEAD)
    loader = DataLoader(Windows(loads, starts, run.fixed), batch_size=16, shuffle=True)
    run.fit(Supervised(*net, loss=nn.functional.l1_loss), loader)

"""Will a pump fail? Forty-eight gauges were read once a minute.

Seen in BiomedSciAI/fuse-med-ml issue 267: work for every sample and every key.

cause: a sample is a dictionary of 48 tensors of one number, which are stacked key by key
accept: data-wait @line
"""

import torch
from case import Items, Run, Supervised, mlp, yes_or_no
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 220
GAUGES = [f"gauge_{number:02}" for number in range(48)]


class Readings(Items):
    def __init__(self, table, failed):
        super().__init__(failed)
        self.columns = dict(zip(GAUGES, table.unbind(1), strict=True))

    def __getitem__(self, index):
        gauges = {name: column[index] for name, column in self.columns.items()}  # cause
        return gauges, self.items[index]


class Gauges(nn.Module):
    def forward(self, gauges):
        if isinstance(gauges, dict):
            gauges = torch.stack([gauges[name] for name in GAUGES], dim=1)
        return gauges


def main(run: Run) -> None:
    table, failed = torch.randn(4800, len(GAUGES)), torch.randint(2, (4800,)).float()
    readings = TensorDataset(table, failed) if run.fixed else Readings(table, failed)
    net = mlp(len(GAUGES), 512, 512, 1, act=nn.SiLU)
    pumps = Supervised(Gauges(), net, loss=yes_or_no)
    run.fit(pumps, DataLoader(readings, batch_size=64, shuffle=True))  # cause

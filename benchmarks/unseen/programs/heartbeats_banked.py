"""Which rhythm is it? Twelve leads of an ECG through a bank of filters of several lengths.

cause: the recordings come as (time, lead) and are only viewed the other way round, so that each of
    the filters copies the transposed batch for itself, forward and backward
right: copies of a non-contiguous input, at the transpose, the bank or a marked line; the change is
    .contiguous() once, or storing them as (lead, time)
accept: non-contiguous-layout
"""

import torch
from case import Run, Supervised, convs, whole_batches
from torch import nn

STEPS, RECORDINGS, TIME, LEADS, RHYTHMS = 350, 600, 1000, 12, 5
LENGTHS = (3, 5, 7, 9, 11, 15)


class Bank(nn.Module):
    def __init__(self, copied_once):
        super().__init__()
        self.copied_once = copied_once
        filters = (nn.Conv1d(LEADS, 6, n, stride=4, padding=n // 2) for n in LENGTHS)
        self.filters = nn.ModuleList(filters)

    def forward(self, leads):
        leads = leads.transpose(1, 2)  # cause
        if self.copied_once:
            leads = leads.contiguous()
        return torch.cat([one(leads) for one in self.filters], dim=1)  # cause


def main(run: Run) -> None:
    rhythms = torch.randint(RHYTHMS, (RECORDINGS,))
    beats = torch.arange(TIME)[:, None] * (0.02 + 0.01 * rhythms[:, None, None])
    leads = torch.sin(beats) + 0.3 * torch.randn(RECORDINGS, TIME, LEADS)
    layers = convs((6 * len(LENGTHS), 48, 5, 2), (48, 64, 5, 2), dims=1)
    model = Supervised(Bank(run.fixed), nn.ReLU(), layers, nn.Linear(64, RHYTHMS))
    model.fused = True
    run.fit(model, whole_batches([leads, rhythms], 24))

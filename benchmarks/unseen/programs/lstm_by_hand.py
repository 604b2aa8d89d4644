"""Electricity load forecast with an LSTM written by hand, "to see what it does".

cause: a Python loop over 60 time steps with a dozen small operations each, where nn.LSTM does it
accept: host-bound small-kernels
"""

import torch
from case import Run, Supervised, mlp, shuffled
from torch import nn

STEPS, WINDOW, FEATURES, HIDDEN = 400, 60, 8, 48


class ByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleDict({n: nn.Linear(FEATURES + HIDDEN, HIDDEN) for n in "ifog"})

    def step(self, x, hidden, memory):
        both = torch.cat([x, hidden], dim=1)  # cause
        take = torch.sigmoid(self.gates["i"](both))  # cause
        keep = torch.sigmoid(self.gates["f"](both))  # cause
        show = torch.sigmoid(self.gates["o"](both))  # cause
        memory = keep * memory + take * torch.tanh(self.gates["g"](both))  # cause
        return show * torch.tanh(memory), memory  # cause

    def forward(self, x):
        hidden = memory = x.new_zeros(len(x), HIDDEN)
        states = []
        for t in range(x.shape[1]):  # cause
            hidden, memory = self.step(x[:, t], hidden, memory)  # cause
            states.append(hidden)  # cause
        return torch.stack(states, dim=1)


class Whole(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


def main(run: Run) -> None:
    lstm = Whole(FEATURES, HIDDEN, batch_first=True) if run.fixed else ByHand()
    data = shuffled(24, torch.randn(1280, WINDOW, FEATURES), torch.randn(1280, WINDOW, 24))
    run.fit(Supervised(lstm, mlp(HIDDEN, 256, 24), loss=nn.functional.l1_loss), data)

"""A recurrent net with an orthogonal transition, over sequences of a sensor.

source: pytorch/pytorch #7313 "[proposal] [discussion] An abstraction to facilitate building
    weight_norm/spectral_norm-like things" (caching for recurrent nets, in the thread)
cause: the orthogonal weight is made anew from its parameter at each of 40 time steps, forward and
    backward, though it is the same in all of them
right: names the parametrization (its computing at every time step; its matrix exponential or the
    cell's line in the loop), with the advice parametrize.cached(), or to take the weight once
"""

from contextlib import nullcontext

import torch
from case import Module, Run, whole_batches
from torch import nn
from torch.nn.utils import parametrizations, parametrize

STEPS = 50


class Orbit(Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed = fixed
        self.enter = nn.Linear(8, 96)
        self.turn = parametrizations.orthogonal(nn.Linear(96, 96, bias=False))
        self.leave = nn.Linear(96, 8)

    def loss(self, batch):
        series = batch[0]
        state, told = torch.zeros(len(series), 96), []
        with parametrize.cached() if self.fixed else nullcontext():
            for now in self.enter(series[:, :-1]).unbind(1):
                state = torch.tanh(self.turn(state) + now)  # cause
                told.append(self.leave(state))
        return nn.functional.mse_loss(torch.stack(told, 1), series[:, 1:])


def main(run: Run) -> None:
    series = torch.randn(8000, 8).cumsum(0).mul(0.02).unfold(0, 41, 1).mT
    run.fit(Orbit(run.fixed), whole_batches([series], 32))

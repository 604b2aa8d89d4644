"""Leaves of plants; somebody wanted to know where the time goes, and left the switch.

Reported in Lightning-AI/pytorch-lightning issue 11480, "PyTorch Profiler leaks memory".

cause: the Trainer's PyTorch profiler, with stacks, records three of five steps and writes a trace
    for each five
right: says that the Trainer's own PyTorch profiler is on and costs much of the run; the change is
    to leave profiler= out (or to record a few steps only)
"""

import torch
from case import Residual, Run, Supervised, mlp, whole_batches
from lightning.pytorch.profilers import PyTorchProfiler
from torch import nn

STEPS, LEAVES, SPECIES, WIDTH = 300, 3200, 12, 160


def main(run: Run) -> None:
    leaves, species = torch.rand(LEAVES, WIDTH), torch.randint(SPECIES, (LEAVES,))
    blocks = [Residual(nn.LayerNorm(WIDTH), mlp(WIDTH, WIDTH, WIDTH)) for _ in range(6)]
    where = run.root / "profiles"
    profiler = None if run.fixed else PyTorchProfiler(where, "fit", with_stack=True)  # cause
    model = Supervised(*blocks, nn.Linear(WIDTH, SPECIES))
    model.fused = True
    run.fit(model, whole_batches([leaves, species], 64), profiler=profiler)  # cause

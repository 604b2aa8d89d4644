"""A regression on simulator output; numpy gave doubles, and the model was made to fit.

cause: the whole model and its data are float64
accept: low-precision-unused double-precision
"""

import numpy as np
import torch
from case import Run, Supervised, mlp, shuffled
from torch import nn

STEPS = 330


def main(run: Run) -> None:
    inputs = torch.from_numpy(np.random.default_rng(0).uniform(size=(10_000, 24)))
    outputs = torch.sin(inputs[:, :6] * 3.0)
    net = mlp(24, 512, 512, 512, 6, act=nn.SiLU)
    if run.fixed:
        inputs, outputs = inputs.float(), outputs.float()
    else:
        net = net.double()  # cause
    run.fit(Supervised(net, loss=nn.functional.mse_loss), shuffled(256, inputs, outputs))

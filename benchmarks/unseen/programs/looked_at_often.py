"""Tomorrow's sunshine over a map, and a wish to see the curve move.

Seen in ramanathanlab/genslm issue 10, "val_check_interval = 100 is probably too small".

cause: all held-out maps are forecast after every tenth batch
accept: frequent-validation
"""

import torch
from case import Run, Validated, convs, shuffled
from torch import nn

STEPS, SIDE = 200, 32


def maps(count):
    return torch.randn(count, 4, SIDE, SIDE), torch.rand(count, 1, SIDE, SIDE)


def main(run: Run) -> None:
    layers = convs((4, 32, 3, 1), (32, 32, 3, 1), pool=False)
    model = Validated(layers, nn.Conv2d(32, 1, 1), loss=nn.functional.l1_loss)
    often = 1.0 if run.fixed else 10  # cause
    loaders = shuffled(12, *maps(1200)), shuffled(24, *maps(240))
    run.fit(model, *loaders, val_check_interval=often)  # cause

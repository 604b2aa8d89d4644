"""Ten lines, each marked `BREAK`, at which torch.compile breaks its graph."""

import sys
import time

import torch
from lightning.pytorch.demos.boring_classes import BoringModel


def eager(function):
    """Compile a function, without generated code."""
    return torch.compile(function, backend="eager")


@eager
def branches(x):
    if x.sum() > 1e6:  # BREAK
        return x * 2
    return x + 1


@eager
def reads_a_value(x):
    scale = x.abs().max().item()  # BREAK
    return x / (scale + 1)


@eager
def prints(x):
    y = x + 1
    print("mean", y.mean(), file=sys.stderr)  # noqa: T201 - one of them # BREAK
    return y


@eager
def asks_for_a_list(x):
    first = x.flatten()[:2].tolist()  # BREAK
    return x + first[0]


@eager
def leaves_torch(x):
    y = x.detach().numpy()  # numpy is traced
    torch._dynamo.graph_break()  # BREAK
    return x + float(y.shape[0])


@torch.compiler.disable
def own(x):
    return x * 3


@eager
def calls_what_is_not_compiled(x):
    return own(x) + 1  # BREAK


@eager
def sleeps(x):
    y = x + 1
    time.sleep(0)  # BREAK
    return y * 2


@eager
def shapes_by_data(x):
    chosen = x[x > 0]  # BREAK
    return x + chosen.sum()


@eager
def seeks(x):
    place = torch.nonzero(x)  # BREAK
    return x + place.shape[0]


@eager
def loops_by_data(x):
    count = torch.ones(())
    while count < 3:  # BREAK
        count = count + 1
    return x + count


ALL = (
    branches,
    reads_a_value,
    prints,
    asks_for_a_list,
    leaves_torch,
    calls_what_is_not_compiled,
    sleeps,
    shapes_by_data,
    seeks,
    loops_by_data,
)


class Breaks(BoringModel):
    """Runs them all in each step."""

    def training_step(self, batch, batch_idx):
        for function in ALL:
            batch = function(batch)
        return super().training_step(batch, batch_idx)

"""Ten lines, each marked `BREAK`, at which torch.compile breaks its graph."""

import sys
import time

import torch
from lightning.pytorch.demos.boring_classes import BoringModel


@torch.compiler.disable
def own(x):
    return x * 3


class Breaks(BoringModel):
    """Runs them all, compiled, in each step."""

    def training_step(self, batch, batch_idx):
        for one in (self.by_value, self.reads, self.by_data, self.calls):
            batch = torch.compile(one, backend="eager")(batch)
        return super().training_step(batch, batch_idx)

    def by_value(self, x):
        if x.sum() > 1e6:  # BREAK
            x = x * 2
        count = torch.ones(())
        while count < 2:  # BREAK
            count = count + 1
        return x + count

    def reads(self, x):
        scale = x.abs().max().item()  # BREAK
        first = x.flatten()[:2].tolist()  # BREAK
        print("mean", x.mean(), file=sys.stderr)  # noqa: T201 - one of them # BREAK
        return x / (scale + 1) + first[0]

    def by_data(self, x):
        chosen = x[x > 0]  # BREAK
        place = torch.nonzero(x)  # BREAK
        return x + chosen.sum() + place.shape[0]

    def calls(self, x):
        torch._dynamo.graph_break()  # BREAK
        y = own(x)  # BREAK
        time.sleep(0)  # BREAK
        return y + 1

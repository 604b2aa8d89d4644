"""Retrieved documents are put in order; how well the order agrees is logged in each step.

Reported in Lightning-AI/torchmetrics issue 126, "Change order of updates in metric forward to
increase efficiency": "this is a heavy computation that should not be executed twice".

cause: the metric leaves full_state_update unset, so that its forward runs the costly update twice
right: names the metric's update (or forward) or a marked line; the change is
    full_state_update = False, or to log less often
"""

import torch
from case import Module, Run, mlp, whole_batches
from torch import nn
from torchmetrics import Metric

STEPS, QUERIES, WIDTH, DOCUMENTS = 200, 2048, 96, 1200


class Agreement(Metric):
    """The mean rank correlation of rows."""

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("rows", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, scores, wanted):
        ranks = [x.argsort(1).argsort(1).float() for x in (scores, wanted)]  # cause
        first, second = (nn.functional.normalize(x - x.mean(1, keepdim=True)) for x in ranks)
        self.total += (first * second).sum()
        self.rows += len(scores)

    def compute(self):
        return self.total / self.rows


class UpdatedOnce(Agreement):
    full_state_update = False


class Order(Module):
    def __init__(self, fixed):
        super().__init__()
        self.net = mlp(WIDTH, 768, DOCUMENTS)
        self.agreement = UpdatedOnce() if fixed else Agreement()  # cause

    def loss(self, batch):
        asked, wanted = batch
        scores = self.net(asked)
        self.log("agreement", self.agreement(scores.detach(), wanted))  # cause
        return nn.functional.mse_loss(scores, wanted)


def main(run: Run) -> None:
    asked = torch.randn(QUERIES, WIDTH)
    wanted = asked @ torch.randn(WIDTH, DOCUMENTS)
    run.fit(Order(run.fixed), whole_batches([asked, wanted], 48))

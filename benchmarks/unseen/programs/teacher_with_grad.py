"""Distillation: a small student learns from a wide teacher.

cause: the teacher runs with gradients on, so backward goes through it for nothing
accept: unused-gradients @line
"""

import torch
from case import Module, Run, mlp, shuffled
from torch import nn

STEPS = 250


class Distill(Module):
    def __init__(self, frozen):
        super().__init__()
        self.frozen = frozen
        self.teacher = mlp(128, 768, 768, 768, 50)
        self.student = mlp(128, 256, 256, 256, 256, 256, 50)

    def soft_targets(self, x):
        if self.frozen:
            with torch.no_grad():
                return (self.teacher(x) / 2.0).softmax(1)
        return (self.teacher(x) / 2.0).softmax(1)  # cause

    def loss(self, batch):
        x, y = batch
        scores = self.student(x)
        target = self.soft_targets(x)  # cause
        soft = nn.functional.kl_div((scores / 2.0).log_softmax(1), target, reduction="batchmean")
        self.log("soft", soft)
        return nn.functional.cross_entropy(scores, y) + soft

    def configure_optimizers(self):
        return torch.optim.SGD(self.student.parameters(), lr=0.1, momentum=0.9)


def main(run: Run) -> None:
    examples = torch.randn(8192, 128), torch.randint(50, (8192,))
    run.fit(Distill(frozen=run.fixed), shuffled(256, *examples))

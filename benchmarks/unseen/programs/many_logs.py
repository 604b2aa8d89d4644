"""Multi-task regression on sensor windows: 16 targets, each with three logged values.

cause: 48 self.log calls in every step, each with on_step and on_epoch
accept: slow-logging
"""

import torch
from case import Module, Run, shuffled
from torch import nn

STEPS, TASKS = 360, 16


class MultiTask(Module):
    def __init__(self, every):
        super().__init__()
        self.every = every
        self.body, self.heads = nn.LSTM(16, 80, batch_first=True), nn.Linear(80, TASKS)

    def loss(self, batch):
        x, y = batch
        out, _ = self.body(x)
        error = self.heads(out[:, -1]) - y
        losses = error.square().mean(0)
        if self.trainer.fit_loop.batch_idx % self.every == 0:
            self.log_tasks(error.detach(), losses.detach())  # cause
        return losses.mean()

    def log_tasks(self, error, losses):
        both = {"on_step": True, "on_epoch": True}
        for task in range(TASKS):  # cause
            self.log(f"mse/{task}", losses[task], **both)  # cause
            self.log(f"mae/{task}", error[:, task].abs().mean(), **both)  # cause
            self.log(f"bias/{task}", error[:, task].mean(), **both)  # cause


def main(run: Run) -> None:
    data = shuffled(64, torch.randn(3000, 48, 16), torch.randn(3000, TASKS))
    run.fit(MultiTask(every=50 if run.fixed else 1), data)

"""Multi-task regression on sensor windows: 16 targets, each with three logged values.

cause: 48 self.log calls in every step, each with on_step and on_epoch
accept: slow-logging
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 360
TASKS = 16


class MultiTask(L.LightningModule):
    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.body = nn.LSTM(16, 80, batch_first=True)
        self.heads = nn.Linear(80, TASKS)

    def training_step(self, batch, batch_idx):
        x, y = batch
        out, _ = self.body(x)
        error = self.heads(out[:, -1]) - y
        losses = error.square().mean(0)
        if batch_idx % self.every == 0:
            self.log_tasks(error.detach(), losses.detach())  # cause
        loss = losses.mean()
        self.log("train_loss", loss)
        return loss

    def log_tasks(self, error, losses):
        both = {"on_step": True, "on_epoch": True}
        for task in range(TASKS):  # cause
            self.log(f"mse/{task}", losses[task], **both)  # cause
            self.log(f"mae/{task}", error[:, task].abs().mean(), **both)  # cause
            self.log(f"bias/{task}", error[:, task].mean(), **both)  # cause

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    windows = TensorDataset(torch.randn(3000, 48, 16), torch.randn(3000, TASKS))
    data = DataLoader(windows, batch_size=64, shuffle=True)
    model = MultiTask(every=50 if run.fixed else 1)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
